// Package verbs answers what a program asks of /dev/infiniband/uverbsN: it decodes ioctl and write() commands with
// package uapi, has package hca carry them out, and writes the answers, errors included, as the kernel's uverbs and
// mlx5 drivers do.
package verbs
