"""Detection: objects and detections kept per image, figures computed from them."""
