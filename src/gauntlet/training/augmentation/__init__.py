"""What is done to samples at random before a training step: to images and labels, to boxes, to parts of images."""
