// Package config describes the emulated machine: its adapters, their ports, GID
// tables and limits. It is pure data: the fake sysfs, the device model and
// rdma_cm all read the same [Config], which nobody changes once it is checked.
//
//	c, err := config.Parse([]string{"mlx5_0,model=cx7,link=ib,ports=2"})
package config
