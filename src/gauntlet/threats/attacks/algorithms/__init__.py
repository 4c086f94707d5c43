"""One file per algorithm; `presets` gives them their names."""
