"""One regression case for each way in which translations lose data, named after what breaks."""
