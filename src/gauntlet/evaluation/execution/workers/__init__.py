"""Units computed by other processes: on this machine's cores or on a Ray cluster, committed by the driver alone."""
