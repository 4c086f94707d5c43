"""What can be done to an image before a model sees it: pure functions of images and parameters, one file each."""
