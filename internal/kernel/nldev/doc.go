// Package nldev asks the kernel by netlink what RDMA devices there are. Kernels before 4.14 do not answer, and those
// before 5.3 do not say what drives a device.
package nldev
