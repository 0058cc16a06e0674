// Package native tests the native control path against kernels that fail. One program uses each command of the kernel;
// it runs with each command spoiled in turn, with too few descriptors, with the device removed and with the process
// killed at each step. It also compares what the two control paths send to the kernel and to the device.
package native
