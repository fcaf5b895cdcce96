"""What the two dialects of OpenAI share: settings, errors, the detail of images."""
