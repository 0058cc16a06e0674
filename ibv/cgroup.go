package ibv

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// CgroupError reports that an object was not created because an rdma cgroup of this process has as many as its
// rdma.max allows.
type CgroupError struct {
	Path     string // the cgroup's directory, below /sys/fs/cgroup
	Device   string // "mlx5_0"
	Resource string // "hca_handle": open devices; "hca_object": all other objects
	Max      uint64 // the limit
	Err      error  // EAGAIN
}

func (e *CgroupError) Error() string {
	return fmt.Sprintf("the rdma cgroup %s may have %d %s of %s, and has as many: close some, or raise the limit in "+
		"%s/rdma.max (linux.resources.rdma of an OCI container): %v", e.Path, e.Max, e.Resource, e.Device, e.Path,
		e.Err)
}

// Unwrap returns Err.
func (e *CgroupError) Unwrap() error { return e.Err }

// The resources of an rdma cgroup.
const (
	hcaHandle = "hca_handle"
	hcaObject = "hca_object"
)

// explainCgroup returns a *CgroupError if a cgroup of this process has reached its limit of a device's resource, and
// err otherwise. Linux charges each object to the cgroup and to all above it, and fails with EAGAIN at the first limit:
// drivers/infiniband/core/cgroup.c, ib_rdmacg_try_charge. root is "/", except in tests.
func explainCgroup(root, device, resource string, err error) error {
	own, bad := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if bad != nil {
		return err
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID:CONTROLLERS:PATH
		if len(f) < 3 {
			continue
		}
		top := "sys/fs/cgroup"
		switch f[1] {
		case "": // version 2
		case "rdma": // version 1
			top += "/rdma"
		default:
			continue
		}
		for at := path.Clean("/" + f[2]); ; at = path.Dir(at) {
			dir := path.Join("/", top, at)
			most, limited := cgroupValue(path.Join(root, dir, "rdma.max"), device, resource)
			used, known := cgroupValue(path.Join(root, dir, "rdma.current"), device, resource)
			if limited && known && used >= most {
				return &CgroupError{Path: dir, Device: device, Resource: resource, Max: most, Err: err}
			}
			if at == "/" {
				break
			}
		}
	}
	return err
}

// cgroupValue reads a value of the line of a device: NAME hca_handle=N hca_object=N. A limit of "max" is none.
func cgroupValue(file, device, resource string) (n uint64, ok bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) == 0 || f[0] != device {
			continue
		}
		for _, pair := range f[1:] {
			if value, found := strings.CutPrefix(pair, resource+"="); found {
				n, err = strconv.ParseUint(value, 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}
