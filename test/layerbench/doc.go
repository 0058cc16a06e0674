// Package layerbench prints the figures of package rdma, as rdmaperf stream and rdmaperf message measure them, on one
// emulated device: each end is a process of its own. What is compared takes turns within a run, and the figure is the
// median of the rounds' ratios. The device and both ends share few processors, so only ratios and counts mean
// something.
package layerbench
