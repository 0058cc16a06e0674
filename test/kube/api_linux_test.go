package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// apartEnv is set where the test binary runs in namespaces of its own. It has the folder of Kubernetes' programs.
const apartEnv = "PUREVERBS_TEST_KUBE"

// api is set where an API server runs.
var api *server

func TestMain(m *testing.M) {
	if os.Getenv(apartEnv) != "" {
		os.Exit(apart(m))
	}
	if why() == "" {
		os.Exit(enter())
	}
	os.Exit(m.Run())
}

const programs = "../../.build/kube"

// why returns why the tests cannot run here, "" if they can.
func why() string {
	switch {
	case os.Getenv(testutil.EmuEnv) == "" || !testutil.Full():
		return "full runs only: make test-kube"
	case os.Getuid() != 0:
		return "needs root"
	}
	for _, p := range []string{"apiserver", "kubectl", "kcm", "scheduler"} {
		if _, err := os.Stat(filepath.Join(programs, p)); err != nil {
			return "a full run builds Kubernetes: make test-kube"
		}
	}
	for _, p := range []string{"etcd", "runc"} {
		if _, err := exec.LookPath(p); err != nil {
			return "a full run builds Kubernetes: make test-kube"
		}
	}
	return ""
}

// need returns the API server.
func need(t *testing.T) *server {
	t.Helper()
	if api == nil {
		t.Skip(why())
	}
	return api
}

// enter runs this binary in namespaces of its own.
func enter() int {
	bin, err := filepath.Abs(programs)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return testutil.Enter(nil, nil, apartEnv+"="+bin)
}

// apart starts the servers, and runs the tests.
func apart(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kube")
	if err == nil {
		defer os.RemoveAll(dir)
		api = &server{dir: dir, bin: os.Getenv(apartEnv)}
		defer api.end()
		err = api.start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the API server:", err)
		return 1
	}
	return m.Run()
}

// server is an API server with etcd, the controllers and the scheduler.
type server struct {
	dir, bin string
	running  []*exec.Cmd
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: admintoken}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func (s *server) start() error {
	d := s.dir
	out, err := exec.Command("sh", "-euc", `cd "$1"; ip link set lo up; ip addr add 10.99.0.1/24 dev lo
	openssl genrsa -out sa.key 2048; openssl rsa -in sa.key -pubout -out sa.pub
	echo 'admintoken,admin,1,"system:masters"' >tokens; printf %s "$2" >kubeconfig`, "sh", d, kubeconfig).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	os.Setenv("KUBECONFIG", d+"/kubeconfig")
	os.Setenv("HOME", d) // kubectl's cache
	if err := errors.Join(
		s.program("etcd", "etcd", "--data-dir="+d+"/etcd", "--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
			"--unsafe-no-fsync"),
		s.program("apiserver", s.bin+"/apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir="+d+"/certs",
			"--service-cluster-ip-range=10.98.0.0/24", "--service-account-issuer=https://kube",
			"--service-account-key-file="+d+"/sa.pub", "--service-account-signing-key-file="+d+"/sa.key",
			"--token-auth-file="+d+"/tokens", "--authorization-mode=RBAC", "--advertise-address=10.99.0.1",
			"--allow-privileged=true", "--bind-address=127.0.0.1"),
	); err != nil {
		return err
	}
	for end := time.Now().Add(testutil.Patience); ; time.Sleep(200 * time.Millisecond) {
		out, err := exec.Command(s.bin+"/kubectl", "get", "--raw", "/readyz").CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(d + "/apiserver.log")
			return fmt.Errorf("%w: %s\n%s", err, out, log[max(0, len(log)-4000):])
		}
	}
	return errors.Join(
		s.program("kcm", s.bin+"/kcm", "--kubeconfig="+d+"/kubeconfig", "--service-account-private-key-file="+d+
			"/sa.key", "--cert-dir="+d+"/kcm", "--bind-address=127.0.0.1", "--leader-elect=false",
			"--node-monitor-grace-period=3600s"),
		s.program("scheduler", s.bin+"/scheduler", "--kubeconfig="+d+"/kubeconfig", "--cert-dir="+d+"/sched",
			"--bind-address=127.0.0.1", "--leader-elect=false", "--authentication-kubeconfig="+d+"/kubeconfig",
			"--authorization-kubeconfig="+d+"/kubeconfig"))
}

// program starts a program that runs until the end.
func (s *server) program(name, path string, args ...string) error {
	f, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	defer f.Close()
	c := exec.Command(path, args...)
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		return err
	}
	s.running = append(s.running, c)
	return nil
}

func (s *server) end() {
	for _, c := range s.running {
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
	}
}

// try runs kubectl.
func (s *server) try(stdin string, args ...string) (string, error) {
	c := exec.Command(s.bin+"/kubectl", args...)
	c.Stdin = strings.NewReader(stdin)
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, &diag)
	}
	return out.String(), nil
}

// do runs kubectl, which must succeed.
func (s *server) do(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.try(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// get reads objects.
func (s *server) get(t *testing.T, into any, args ...string) {
	t.Helper()
	text := s.do(t, "", append([]string{"get", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// node makes a node that is ready, with a taint of GPU nodes and the resource of an RDMA device plugin, or without.
func (s *server) node(t *testing.T, name string, gpu bool) {
	t.Helper()
	taints, rdma := "[]", "0"
	if gpu {
		taints, rdma = `[{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"}]`, "1"
	}
	s.do(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/os":"linux",
		"kubernetes.io/hostname":%[1]q}},"spec":{"taints":%s}}`, name, taints), "create", "-f", "-")
	s.do(t, "", "patch", "node", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{
		"capacity":{"cpu":"8","memory":"16Gi","pods":"100","rdma/hca":%q},
		"allocatable":{"cpu":"8","memory":"16Gi","pods":"100","rdma/hca":%[1]q},
		"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"",
		"lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, rdma))
	t.Cleanup(func() { s.do(t, "", "delete", "node", name, "--wait=false") })
	testutil.Eventually(t, name+" has no taint of a node that is not ready", func() bool {
		return !strings.Contains(s.do(t, "", "get", "node", name, "-o", "jsonpath={.spec.taints}"), "not-ready")
	})
}

// namespace makes a namespace with a level of Pod Security.
func (s *server) namespace(t *testing.T, level string) (name string) {
	t.Helper()
	name = strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name())) + "-" + level
	s.do(t, "", "create", "namespace", name)
	s.do(t, "", "label", "namespace", name, "pod-security.kubernetes.io/enforce="+level)
	s.do(t, "", "-n", name, "create", "secret", "generic", "rdmaperf-token", "--from-literal=token=0123456789abcdef")
	t.Cleanup(func() { s.do(t, "", "delete", "namespace", name, "--wait=false") })
	return name
}
