"""Every feature of the protocol, between every two eras and transports."""
