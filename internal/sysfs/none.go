package sysfs

import "os"

// Exclusive reports whether the RDMA subsystem shows a device in one network namespace only.
func (r Root) Exclusive() bool {
	mode, err := r.Attr("module", "ib_core", "parameters", "netns_mode")
	return err == nil && mode == "N"
}

// NoDevice returns why the kernel shows no RDMA device.
func (r Root) NoDevice() string {
	if r.Exclusive() {
		return "the RDMA subsystem is in exclusive mode, and no device is in this network namespace (rdma dev set " +
			"NAME netns PID, where the device is)"
	}
	if _, err := os.Stat(r.ClassDir()); err != nil {
		return r.ClassDir() + " does not exist; load a driver, such as mlx5_ib or rdma_rxe"
	}
	return r.ClassDir() + " is empty; load a driver, such as mlx5_ib or rdma_rxe"
}
