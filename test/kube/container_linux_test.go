package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// container is a bundle of runc, as containerd and CRI-O make them.
type container struct {
	dir  string
	spec map[string]any
}

// child returns an object within an object.
func child(o map[string]any, names ...string) map[string]any {
	for _, n := range names {
		o = o[n].(map[string]any)
	}
	return o
}

// bundle returns a bundle with an empty root.
func bundle(t *testing.T) *container {
	t.Helper()
	c := &container{dir: t.TempDir()}
	for _, d := range []string{"rootfs/dev", "rootfs/proc", "rootfs/bin"} {
		if err := os.MkdirAll(filepath.Join(c.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("runc", "spec")
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(c.dir + "/config.json")
	if err == nil {
		err = json.Unmarshal(text, &c.spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	child(c.spec, "process")["terminal"] = false
	caps := []string{"CAP_IPC_LOCK"}
	for set := range child(c.spec, "process", "capabilities") {
		child(c.spec, "process", "capabilities")[set] = caps
	}
	mounts := c.spec["mounts"].([]any)
	c.spec["mounts"] = slices.DeleteFunc(mounts, func(m any) bool { // no /sys, and no cgroups
		return !slices.Contains([]any{"/proc", "/dev"}, m.(map[string]any)["destination"])
	})
	child(c.spec, "linux", "resources")["devices"] = []any{map[string]any{"allow": false, "access": "rwm"}}
	return c
}

// run runs a program in the container.
func (c *container) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	child(c.spec, "process")["args"] = args
	text, err := json.Marshal(c.spec)
	if err == nil {
		err = os.WriteFile(c.dir+"/config.json", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("runc", "--root", c.dir+"/state", "run", fmt.Sprintf("rdmaperf-%d", os.Getpid()))
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestEmuKube_Devices: a device folder that is mounted is there and cannot be opened; a device of a device plugin can.
// The file has the number of uverbs0. There is no driver, so a file that may be opened is ENXIO.
func TestEmuKube_Devices(t *testing.T) {
	need(t)
	host := t.TempDir()
	if out, err := exec.Command("mknod", "-m", "666", host+"/uverbs0", "c", "231", "192").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const refused, admitted = "Operation not permitted", "No such device or address"
	for _, tt := range []struct {
		how  string
		with func(*container)
		want string
	}{
		{"mount", func(c *container) {
			c.spec["mounts"] = append(c.spec["mounts"].([]any), map[string]any{"destination": "/dev/infiniband",
				"type": "bind", "source": host, "options": []string{"rbind", "rw"}})
		}, refused},
		{"resource", func(c *container) { // what the kubelet makes of a device plugin's DeviceSpec
			child(c.spec, "linux")["devices"] = []any{map[string]any{"path": "/dev/infiniband/uverbs0", "type": "c",
				"major": 231, "minor": 192, "fileMode": 0o666}}
			res := child(c.spec, "linux", "resources")
			res["devices"] = append(res["devices"].([]any), map[string]any{"allow": true, "type": "c", "major": 231,
				"minor": 192, "access": "rw"})
		}, admitted},
		{"privileged", func(c *container) {
			c.spec["mounts"] = append(c.spec["mounts"].([]any), map[string]any{"destination": "/dev/infiniband",
				"type": "bind", "source": host, "options": []string{"rbind", "rw"}})
			child(c.spec, "linux", "resources")["devices"] = []any{map[string]any{"allow": true, "access": "rwm"}}
		}, admitted},
	} {
		c := bundle(t)
		tt.with(c)
		if out, err := exec.Command("cp", "/bin/busybox", c.dir+"/rootfs/bin/sh").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, _ := c.run(t, "/bin/sh", "-c", ": </dev/infiniband/uverbs0")
		if !strings.Contains(out, tt.want) {
			t.Errorf("%s: %q, want %q", tt.how, out, tt.want)
		}
		t.Logf("%s: %s", tt.how, out)
	}
}

// unpack makes the root of an image in an OCI archive.
func unpack(t *testing.T, archive, root string) {
	t.Helper()
	dir := t.TempDir()
	tar := func(args ...string) {
		if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
			t.Fatalf("tar %q: %v\n%s", args, err, out)
		}
	}
	tar("-C", dir, "-xf", archive)
	type ref struct{ Digest string }
	blob := func(r ref) string { return filepath.Join(dir, "blobs", strings.Replace(r.Digest, ":", "/", 1)) }
	read := func(path string, into any) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []ref }
	var manifest struct{ Layers []ref }
	read(dir+"/index.json", &index)
	read(blob(index.Manifests[0]), &manifest)
	for _, l := range manifest.Layers {
		tar("-C", root, "-xf", blob(l))
	}
}

// TestEmuKube_Image builds the image, and runs it as the manifests' pods do.
func TestEmuKube_Image(t *testing.T) {
	need(t)
	archive := os.Getenv(apartEnv) + "/rdmaperf.tar" // scripts/setup kube
	c := bundle(t)
	unpack(t, archive, c.dir+"/rootfs")
	out, err := c.run(t, "/usr/local/bin/rdmaperf", "--version")
	if err != nil || !strings.HasPrefix(out, "rdmaperf of pureverbs") {
		t.Errorf("%v: %q", err, out)
	}
	out, err = c.run(t, "/usr/local/bin/rdmaperf", "doctor")
	if err == nil || !strings.Contains(out, "no RDMA device") {
		t.Errorf("%v: %q", err, out)
	}
	t.Log(out)
}
