package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// live is a pod as its kubelet reads it.
type live struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Spec struct {
		NodeName   string
		Containers []struct {
			Command []string
			Args    []string
			Env     []struct {
				Name, Value string
				ValueFrom   struct {
					FieldRef struct{ FieldPath string }
				}
			}
		}
	}
}

var reference = regexp.MustCompile(`\$\((\w+)\)`)

// environment returns the pod's variables, as a kubelet sets them.
func (p *live) environment(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range p.Spec.Containers[0].Env {
		path := e.ValueFrom.FieldRef.FieldPath
		part, key, _ := strings.Cut(strings.TrimSuffix(path, "']"), "['")
		switch {
		case path == "":
			env[e.Name] = e.Value
		case path == "spec.nodeName":
			env[e.Name] = p.Spec.NodeName
		case part == "metadata.labels":
			env[e.Name] = p.Metadata.Labels[key]
		case part == "metadata.annotations":
			env[e.Name] = p.Metadata.Annotations[key]
		default:
			t.Fatalf("%s is from %q", e.Name, path)
		}
		if env[e.Name] == "" {
			t.Errorf("%s of %s is empty", e.Name, p.Metadata.Name)
		}
	}
	return env
}

// TestEmuKube_Mesh runs the programs of a run's pods, with the environment that the API server's objects give them, on
// emulated adapters.
func TestEmuKube_Mesh(t *testing.T) {
	s := need(t)
	const hosts = 3
	for i := range hosts {
		s.node(t, fmt.Sprintf("rdma%d", i+1), true)
	}
	ns := s.namespace(t, "privileged")
	s.do(t, "", "-n", ns, "apply", "-k", filepath.Join(site(t, "hosts: 8", "hosts: 3", `["--order=rounds"]`,
		`["-n", "20", "-s", "64", "--ib-dev=all"]`), "hostnetwork"))
	s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/perf-mesh", "mesh")
	testutil.Eventually(t, "the run is placed", func() bool { return len(s.nodesOf(t, ns, "mesh")) == hosts })
	var list struct{ Items []live }
	s.get(t, &list, "-n", ns, "pods", "-l", "batch.kubernetes.io/job-name=mesh")

	dir := t.TempDir()
	bin, err := filepath.Abs("../../.build/bin")
	if err != nil {
		t.Fatal(err)
	}
	// What the cluster gives a pod: the image's program, the Secret's file, the service's name. This mount namespace is
	// the tests' own.
	token := s.do(t, "", "-n", ns, "get", "secret", "perf-token", "-o", "go-template={{.data.token | base64decode}}")
	out, err := exec.Command("sh", "-euc", `mount -t tmpfs none /run; mkdir /run/perf; printf %s "$3" >/run/perf/token
	cp "$2/perf" "$1/rdmaperf"; printf '127.0.0.1 localhost mesh-0.perf-mesh\n' >"$1/hosts"
	mount --bind "$1/hosts" /etc/hosts`, "sh", dir, bin, token).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "/etc/hosts", "/run").Run() })
	script := ""
	for _, p := range list.Items {
		env := p.environment(t)
		var words []string
		for k, v := range env {
			words = append(words, k+"="+v)
		}
		for _, w := range append(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args...) {
			words = append(words, reference.ReplaceAllStringFunc(w, func(r string) string {
				return env[r[2:len(r)-1]]
			}))
		}
		script += fmt.Sprintf("(env '%s'; echo $? >%s/%s.rc) >%[2]s/%[3]s.out 2>&1 &\n",
			strings.Join(words, "' '"), dir, env["JOB_COMPLETION_INDEX"])
	}
	c := exec.Command(bin+"/emu", "--net=host", "--device", "mlx5_0", "--device", "mlx5_1", "--",
		"sh", "-c", script+"wait")
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for i := range hosts {
		name := fmt.Sprintf("%s/%d", dir, i)
		rc, _ := os.ReadFile(name + ".rc")
		out, _ := os.ReadFile(name + ".out")
		if string(rc) != "0\n" || i > 0 && len(out) > 0 {
			t.Errorf("pod %d: exit code %q, %q", i, rc, out)
		}
		if i == 0 {
			for n := range hosts {
				if !strings.Contains(string(out), fmt.Sprintf("rdma%d ", n+1)) {
					t.Errorf("rdma%d is not in the tables:\n%s", n+1, out)
				}
			}
		}
	}
}
