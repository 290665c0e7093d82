"""What runs around the pipeline: scripts, images and configurations, read as files."""
