package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// live is a pod as its kubelet reads it.
type live struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
		DeletionTimestamp   string
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
	Status struct{ Phase string }
}

func (p *live) job() string { return p.Metadata.Labels["batch.kubernetes.io/job-name"] }

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
			t.Errorf("%s is from %q", e.Name, path)
		}
		if env[e.Name] == "" {
			t.Errorf("%s of %s is empty", e.Name, p.Metadata.Name)
		}
	}
	return env
}

var reference = regexp.MustCompile(`\$\((\w+)\)`)

// kubelet runs the programs of a namespace's pods on emulated adapters, as the kubelets of all nodes do, with what the
// API server's objects give them.
type kubelet struct {
	s       *server
	t       *testing.T
	ns, dir string
	shell   io.WriteCloser // commands for the shell that has the adapters
	stop    chan struct{}
	stopped sync.WaitGroup

	state   map[string]string // of pods, by name: the goroutine's
	mu      sync.Mutex
	sharing []string // agents of several runs that had nodes at the same time
	agents  int      // that were seen
}

// kubelet starts the kubelets of a namespace.
func (s *server) kubelet(t *testing.T, ns string) *kubelet {
	t.Helper()
	k := &kubelet{s: s, t: t, ns: ns, dir: t.TempDir(), stop: make(chan struct{}), state: map[string]string{}}
	bin, err := filepath.Abs("../../.build/bin")
	if err != nil {
		t.Fatal(err)
	}
	// What the cluster gives to a pod: the image's program, the Secret's file, the service account's. This mount
	// namespace is the tests' own.
	token := s.do(t, "", "-n", ns, "get", "secret", "rdmaperf-token", "-o",
		"go-template={{.data.token | base64decode}}")
	out, err := exec.Command("sh", "-euc", `mount -t tmpfs none /run; mkdir /run/rdmaperf; printf %s "$3" >/run/rdmaperf/token
	a=/var/run/secrets/kubernetes.io/serviceaccount; mkdir -p $a; printf %s "$4" >$a/token; printf %s "$5" >$a/namespace
	cp "$6/certs/apiserver.crt" $a/ca.crt; cp "$2/rdmaperf" "$1/rdmaperf"`, "sh", k.dir, bin, token,
		s.do(t, "", "-n", ns, "create", "token", "rdmaperf-mesh"), ns, s.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "/run").Run() })
	c := exec.Command(bin+"/emu", "--net=host", "--device", "mlx5_0", "--device", "mlx5_1", "--", "sh")
	c.Env = append(os.Environ(), "PATH="+k.dir+":"+os.Getenv("PATH"), "KUBERNETES_SERVICE_HOST=127.0.0.1",
		"KUBERNETES_SERVICE_PORT=6443")
	log, err := os.Create(filepath.Join(k.dir, "shell"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	if k.shell, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	k.stopped.Go(k.run)
	t.Cleanup(func() {
		close(k.stop)
		k.stopped.Wait()
		fmt.Fprintf(k.shell, "kill -9 $(cat %s/*.pid) 2>/dev/null; wait\n", k.dir)
		k.shell.Close()
		_ = c.Wait()
		log.Close()
		files, _ := filepath.Glob(k.dir + "/*.out")
		for _, f := range append(files, log.Name()) {
			if text, _ := os.ReadFile(f); t.Failed() && len(text) > 0 {
				t.Logf("%s: %s", filepath.Base(f), text)
			}
		}
	})
	return k
}

func (k *kubelet) run() {
	for {
		select {
		case <-k.stop:
			return
		case <-time.After(300 * time.Millisecond):
		}
		text, err := k.s.try("", "-n", k.ns, "get", "pods", "-o", "json")
		var list struct{ Items []live }
		if err == nil {
			err = json.Unmarshal([]byte(text), &list)
		}
		if err != nil {
			k.t.Error(err)
			continue
		}
		var runs []string // whose agents have nodes
		for _, p := range list.Items {
			if p.Metadata.Labels["app"] != "rdmaperf-agents" {
				k.pod(&p)
				continue
			}
			k.mu.Lock()
			k.agents++
			k.mu.Unlock()
			if ended := k.pod(&p); p.Spec.NodeName != "" && !ended && p.Metadata.DeletionTimestamp == "" &&
				!slices.Contains(runs, p.job()) {
				runs = append(runs, p.job())
			}
		}
		if len(runs) > 1 {
			k.mu.Lock()
			k.sharing = append(k.sharing, strings.Join(runs, " and "))
			k.mu.Unlock()
		}
	}
}

// pod does for a pod what its kubelet does, and reports whether it has ended.
func (k *kubelet) pod(p *live) (ended bool) {
	name := p.Metadata.Name
	file := filepath.Join(k.dir, name)
	code, over := k.code(name)
	switch state := k.state[name]; {
	case state == "" && p.Spec.NodeName != "" && p.Metadata.DeletionTimestamp == "":
		k.state[name] = "runs"
		k.start(p)
		k.says(name, "Running", 0)
	case state == "runs" && over:
		k.state[name] = "over"
		k.says(name, map[bool]string{true: "Succeeded", false: "Failed"}[code == 0], code)
	case p.Metadata.DeletionTimestamp != "" && (state == "over" || state == ""):
		_, _ = k.s.try("", "-n", k.ns, "delete", "pod", name, "--force", "--grace-period=0", "--wait=false")
	case p.Metadata.DeletionTimestamp != "" && state == "runs":
		fmt.Fprintf(k.shell, "kill $(cat %s.pid)\n", file)
	}
	return over
}

// says sets how a pod is, unless it is gone.
func (k *kubelet) says(name, phase string, code int) {
	if err := k.s.says(k.ns, name, phase, code, "127.0.0.1"); err != nil && !strings.Contains(err.Error(), "NotFound") {
		k.t.Error(err)
	}
}

// start runs the program of a pod.
func (k *kubelet) start(p *live) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	env := p.environment(k.t)
	words := []string{"exec", "env"}
	for name, v := range env {
		words = append(words, quote(name+"="+v))
	}
	for _, w := range append(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args...) {
		words = append(words, quote(reference.ReplaceAllStringFunc(w, func(r string) string {
			return env[r[2:len(r)-1]]
		})))
	}
	file := filepath.Join(k.dir, p.Metadata.Name)
	fmt.Fprintf(k.shell, "(sh -c %s >%s.out 2>&1; echo $? >%[2]s.rc) &\n",
		quote(fmt.Sprintf("echo $$ >%s.pid; ", file)+strings.Join(words, " ")), file)
}

// code returns the exit code of a pod's program, and whether it has ended.
func (k *kubelet) code(pod string) (code int, ended bool) {
	text, _ := os.ReadFile(filepath.Join(k.dir, pod+".rc"))
	if !strings.HasSuffix(string(text), "\n") {
		return 0, false
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		k.t.Error(err)
	}
	return code, true
}

// text returns what a pod's program has printed.
func (k *kubelet) text(pod string) string {
	text, _ := os.ReadFile(filepath.Join(k.dir, pod+".out"))
	return string(text)
}

// begin starts runs at the same time, and returns their pods.
func (k *kubelet) begin(runs ...string) (pods []string) {
	k.t.Helper()
	for _, r := range runs {
		k.s.do(k.t, "", "-n", k.ns, "create", "job", "--from=cronjob/rdmaperf-mesh", r)
	}
	for _, r := range runs {
		testutil.Eventually(k.t, r+" has a pod", func() bool { return len(k.s.pods(k.t, k.ns, r)) == 1 })
		pods = append(pods, k.s.pods(k.t, k.ns, r)[0].Metadata.Name)
	}
	return pods
}

// working waits until a run has all its agents.
func (k *kubelet) working(run string) {
	k.t.Helper()
	testutil.Eventually(k.t, run+" has agents", func() bool {
		out := k.s.do(k.t, "", "-n", k.ns, "get", "pods", "-l", "app=rdmaperf-agents", "-o",
			`jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}`)
		return strings.Count(out, run+"-") == hosts
	})
}

// prints waits until a pod's program has printed something.
func (k *kubelet) prints(pod, want string) {
	k.t.Helper()
	testutil.Eventually(k.t, pod+" prints "+want, func() bool {
		if _, ended := k.code(pod); ended && !strings.Contains(k.text(pod), want) {
			k.t.Fatalf("%s has ended: %s", pod, k.text(pod))
		}
		return strings.Contains(k.text(pod), want)
	})
}

// ends waits until the Job of a run ends, and its pod has an exit code.
func (k *kubelet) ends(run, pod string, want int) {
	k.t.Helper()
	testutil.Eventually(k.t, run+" has ended", func() bool {
		types := k.s.do(k.t, "", "-n", k.ns, "get", "job", run, "-o", "jsonpath={.status.conditions[*].type}")
		return strings.Contains(types, "Complete") || strings.Contains(types, "Failed")
	})
	if code, ended := k.code(pod); code != want || !ended {
		k.t.Errorf("%s: exit code %d, want %d: %s", pod, code, want, k.text(pod))
	}
}

// freed waits until no run has the Lease, and none has agents.
func (k *kubelet) freed() {
	k.t.Helper()
	testutil.Eventually(k.t, "no run has the nodes", func() bool {
		holder := k.s.do(k.t, "", "-n", k.ns, "get", "lease", "rdmaperf-mesh", "-o", "jsonpath={.spec.holderIdentity}")
		jobs := k.s.do(k.t, "", "-n", k.ns, "get", "jobs,pods", "-l", "app=rdmaperf-agents", "-o", "name")
		return holder == "" && jobs == ""
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sharing) > 0 {
		k.t.Errorf("agents of %q had nodes at the same time", k.sharing)
	}
}
