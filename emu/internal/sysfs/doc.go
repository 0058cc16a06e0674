// Package sysfs shows a program the devices of a configuration below /sys and
// /dev. A [Tree] is a private folder with the files that the RDMA libraries
// read; [Tree.Lookup] finds which of a program's paths lead there. Links in it
// are relative and as the kernel's are, so that a folder opened through it works
// natively: readdir, openat and ".." need no help.
package sysfs
