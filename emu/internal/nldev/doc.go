// Package nldev answers the questions of RDMA netlink (iproute2's rdma): which devices and ports there are. It changes
// nothing.
package nldev
