// Package binaries tests the programs as they are shipped: what they link, and
// that they start on a machine without any RDMA library.
package binaries
