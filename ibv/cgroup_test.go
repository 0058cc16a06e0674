package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestExplainCgroup: the cgroup that has reached its limit is named, whichever it is of this process's and whichever
// version; what is no limit of this device explains nothing.
func TestExplainCgroup(t *testing.T) {
	const full, room, other = "mlx5_0 hca_handle=1 hca_object=8\nmlx5_1 hca_handle=9 hca_object=9\n",
		"mlx5_0 hca_handle=max hca_object=9\nmlx5_1 hca_handle=1 hca_object=1\n",
		"mlx5_1 hca_handle=9 hca_object=8\n"
	for _, c := range []struct {
		name, own string
		files     map[string]string
		path      string // of the error; "": none
	}{
		{"own", "0::/a/b\n", map[string]string{"a/b/rdma.max": "mlx5_0 hca_handle=max hca_object=8\n",
			"a/b/rdma.current": full}, "a/b"},
		{"above", "0::/a/b\n", map[string]string{"a/b/rdma.max": room, "a/b/rdma.current": full,
			"a/rdma.max":     "mlx5_1 hca_handle=max hca_object=1\nmlx5_0 hca_handle=max hca_object=7\n",
			"a/rdma.current": full}, "a"},
		{"the top of a container", "0::/\n", map[string]string{"rdma.max": "mlx5_0 hca_handle=1 hca_object=max\n",
			"rdma.current": full}, "."},
		{"version 1", "5:cpu,cpuacct:/\n4:rdma:/x\n0::/\n", map[string]string{
			"rdma/x/rdma.max": "mlx5_0 hca_handle=1 hca_object=max", "rdma/x/rdma.current": full}, "rdma/x"},
		{"room", "0::/a\n", map[string]string{"a/rdma.max": room, "a/rdma.current": full}, ""},
		{"another device", "0::/a\n", map[string]string{"a/rdma.max": full, "a/rdma.current": other}, ""},
		{"no limits", "0::/a\n", map[string]string{"a/cgroup.procs": ""}, ""},
		{"no controller", "", nil, ""},
		{"hostile", "::\n0::/../../a\n\x00\n7:rdma\n", map[string]string{"a/rdma.max": "mlx5_0 =\nmlx5_0\n\xff=1",
			"a/rdma.current": "mlx5_0 hca_handle=-1 =9 x=18446744073709551616"}, ""},
	} {
		root := t.TempDir()
		write := func(name, text string) {
			ok(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			ok(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		}
		if c.own != "" {
			write("proc/self/cgroup", c.own)
		}
		for name, text := range c.files {
			write("sys/fs/cgroup/"+name, text)
		}
		resource := hcaObject
		if c.name == "the top of a container" || c.name == "version 1" {
			resource = hcaHandle
		}
		err := explainCgroup(root, "mlx5_0", resource, syscall.EAGAIN)
		var e *CgroupError
		if !errors.Is(err, syscall.EAGAIN) || errors.As(err, &e) != (c.path != "") {
			t.Errorf("%s: %v", c.name, err)
		}
		if e != nil && (e.Path != filepath.Join("/sys/fs/cgroup", c.path) ||
			!strings.Contains(e.Error(), e.Path+"/rdma.max")) {
			t.Errorf("%s: %v, want %s", c.name, err, c.path)
		}
	}
}
