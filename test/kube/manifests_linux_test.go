package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

var variants = []string{"hostnetwork", "privileged", "restricted"}

// site returns a copy of the manifests for a namespace, whose values are changed, as an administrator would.
func site(t *testing.T, ns string, edit ...string) (dir string) {
	t.Helper()
	edit = append(edit, "namespace: rdmaperf #", "namespace: "+ns+" #")
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../deploy/kubernetes")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "site", "values.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i+1 < len(edit); i += 2 {
		if strings.Count(text, edit[i]) != 1 {
			t.Fatalf("values.yaml has %q %d times", edit[i], strings.Count(text, edit[i]))
		}
		text = strings.Replace(text, edit[i], edit[i+1], 1)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEmuKube_Strict: the API server knows each field, and what it demands is there.
func TestEmuKube_Strict(t *testing.T) {
	s := need(t)
	ns := s.namespace(t, "privileged")
	for _, v := range variants {
		text := s.do(t, "", "kustomize", filepath.Join(site(t, ns), v))
		s.do(t, text, "-n", ns, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		for _, tt := range [][3]string{
			{"serviceAccountName:", "serviceaccountName:", "unknown field"},
			{"completions: 2", "completions: many", "cannot unmarshal string"},
			{"completionMode: Indexed", "completionMode: Index", "Unsupported value"},
			{"restartPolicy: Never", "restartPolicy: Always", "Required value"},
			{"name: rdmaperf-mesh\n", "name: perf_mesh\n", "RFC 1123"},
			{"verbs:\n", "verb:\n", "unknown field"},
			{"apiGroup: rbac.authorization.k8s.io\n", "apiGroup: rbac\n", "Unsupported value"},
			{"secretName:", "secretname:", "unknown field"},
			{"backoffLimitPerIndex: 0", "backoffLimitPerIndex: -1", "greater than or equal to 0"},
		} {
			if !strings.Contains(text, tt[0]) {
				t.Errorf("%s has no %q", v, tt[0])
			}
			wrong := strings.Replace(text, tt[0], tt[1], 1)
			_, err := s.try(wrong, "-n", ns, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), tt[2]) {
				t.Errorf("%s with %q: %v, want %q", v, tt[1], err, tt[2])
			}
		}
	}
}

// TestEmuKube_Options: what a cluster may need has its place, and the API server takes it.
func TestEmuKube_Options(t *testing.T) {
	s := need(t)
	ns := s.namespace(t, "privileged")
	dir := site(t, ns, "name: rdmaperf-registry", "name: pull", "schedulerName: default-scheduler",
		"schedulerName: gangs",
		`priorityClassName: ""`, "priorityClassName: system-node-critical", "\nqueue: \"\"", "\nqueue: gpus")
	s.do(t, "", "apply", "-k", filepath.Join(dir, "hostnetwork"))
	got := s.do(t, "", "-n", ns, "get", "cronjob", "rdmaperf-agents", "-o",
		`jsonpath={.spec.jobTemplate.metadata.labels} `+
			`{.spec.jobTemplate.spec.template.spec['imagePullSecrets','schedulerName','priorityClassName']}`)
	for _, want := range []string{`"kueue.x-k8s.io/queue-name":"gpus"`, `"name":"pull"`, "gangs",
		"system-node-critical"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	got = s.do(t, "", "-n", ns, "get", "cronjob", "rdmaperf-mesh", "-o",
		`jsonpath={.spec.jobTemplate.spec.template.spec['imagePullSecrets']}`)
	if !strings.Contains(got, `"name":"pull"`) {
		t.Errorf("the run's pod has %s", got)
	}
}

// pod is what the tests read of one.
type pod struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec   struct{ NodeName string }
	Status struct{ Phase string }
}

// pods returns the pods of a run, by their index.
func (s *server) pods(t *testing.T, ns, run string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	s.get(t, &list, "-n", ns, "pods", "-l", "batch.kubernetes.io/job-name="+run)
	slices.SortFunc(list.Items, func(a, b pod) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return list.Items
}

// nodesOf returns the nodes that have pods of a run.
func (s *server) nodesOf(t *testing.T, ns, run string) (nodes []string) {
	t.Helper()
	for _, p := range s.pods(t, ns, run) {
		if p.Spec.NodeName != "" {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// says sets how a pod ended, or that it runs, as its kubelet would.
func (s *server) says(ns, name, phase string, code int, addr string) error {
	state := fmt.Sprintf(`{"terminated":{"exitCode":%d,"reason":"Completed"}}`, code)
	if phase == "Running" {
		state = `{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`
	}
	_, err := s.try("", "-n", ns, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"phase":%q,"podIP":%q,"podIPs":[{"ip":%[2]q}],"containerStatuses":[{"name":"rdmaperf","image":"i","imageID":"i",
		"ready":false,"restartCount":0,"state":%s}]}}`, phase, addr, state))
	return err
}

// agents makes a Job of agents, as rdmaperf mesh does.
func (s *server) agents(t *testing.T, ns, name string, pods int) {
	t.Helper()
	text := s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/rdmaperf-agents", name, "--dry-run=client", "-o",
		"json")
	for _, field := range []string{"completions", "parallelism"} {
		old := fmt.Sprintf(`"%s": 2`, field)
		if strings.Count(text, old) != 1 {
			t.Fatalf("no %s in %s", old, text)
		}
		text = strings.Replace(text, old, fmt.Sprintf(`"%s": %d`, field, pods), 1)
	}
	s.do(t, text, "-n", ns, "create", "-f", "-")
}

// TestEmuKube_Runs: agents are on the nodes that have adapters, one on each, though these have a taint; other agents
// wait for the nodes; one that fails does not end the others.
func TestEmuKube_Runs(t *testing.T) {
	s := need(t)
	for _, n := range []string{"cpu1", "cpu2"} {
		s.node(t, n, false)
	}
	gpus := []string{"gpu1", "gpu2", "gpu3"}
	for _, n := range gpus {
		s.node(t, n, true)
	}
	ns := s.namespace(t, "privileged")
	s.do(t, "", "apply", "-k", filepath.Join(site(t, ns), "hostnetwork"))
	s.agents(t, ns, "first", 3)
	testutil.Eventually(t, "the first agents are placed", func() bool { return len(s.nodesOf(t, ns, "first")) == 3 })
	if got := s.nodesOf(t, ns, "first"); !slices.Equal(got, gpus) {
		t.Errorf("the pods are on %q, want %q", got, gpus)
	}
	pods := s.pods(t, ns, "first")
	says := func(i int, phase string, code int) {
		t.Helper()
		if err := s.says(ns, pods[i].Metadata.Name, phase, code, fmt.Sprintf("10.1.0.%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		says(i, "Running", 0)
	}
	s.agents(t, ns, "second", 2)
	testutil.Eventually(t, "the second agents have pods", func() bool { return len(s.pods(t, ns, "second")) == 2 })
	testutil.Eventually(t, "the scheduler has looked at the second agents", func() bool {
		out := s.do(t, "", "-n", ns, "get", "events", "--field-selector=reason=FailedScheduling", "-o",
			"jsonpath={.items[*].involvedObject.name}")
		return strings.Contains(out, "second-0") && strings.Contains(out, "second-1")
	})
	if on := s.nodesOf(t, ns, "second"); len(on) > 0 {
		t.Errorf("two Jobs share %q", on)
	}
	says(2, "Failed", 1)
	testutil.Eventually(t, "the failed pod is counted", func() bool {
		return s.do(t, "", "-n", ns, "get", "job", "first", "-o", "jsonpath={.status.failedIndexes}") == "2"
	})
	if left := s.pods(t, ns, "first"); len(left) != 3 || left[0].Status.Phase != "Running" {
		t.Errorf("after one pod failed: %+v", left)
	}
	says(0, "Succeeded", 0)
	says(1, "Succeeded", 0)
	testutil.Eventually(t, "the first Job ends as failed", func() bool {
		return strings.Contains(s.do(t, "", "-n", ns, "get", "job", "first", "-o",
			"jsonpath={.status.conditions[*].type}"), "Failed")
	})
	testutil.Eventually(t, "the second agents are placed", func() bool { return len(s.nodesOf(t, ns, "second")) == 2 })
}

// TestEmuKube_PodSecurity: which variant's agents need which level. The pod of a run needs none.
func TestEmuKube_PodSecurity(t *testing.T) {
	s := need(t)
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		for _, v := range variants {
			t.Run(v+"_"+level, func(t *testing.T) {
				ns := s.namespace(t, level)
				s.do(t, "", "apply", "-k", filepath.Join(site(t, ns), v))
				s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/rdmaperf-mesh", "run")
				s.agents(t, ns, "agents", 2)
				var pods int
				var refusal string
				testutil.Eventually(t, "pods, or a refusal", func() bool {
					pods = len(s.pods(t, ns, "agents"))
					refusal = s.do(t, "", "-n", ns, "get", "events", "--field-selector=reason=FailedCreate", "-o",
						"jsonpath={.items[*].message}")
					return pods == 2 || refusal != ""
				})
				t.Log(pods, refusal)
				admitted := level == "privileged" || v == "restricted"
				want := `violates PodSecurity "` + level
				if admitted != (refusal == "") || !admitted && !strings.Contains(refusal, want) {
					t.Errorf("%d pods, %q", pods, refusal)
				}
				testutil.Eventually(t, "the run has a pod", func() bool { return len(s.pods(t, ns, "run")) == 1 })
			})
		}
	}
}

// TestEmuKube_Readme runs the commands of deploy/README.md as they are.
func TestEmuKube_Readme(t *testing.T) {
	s := need(t)
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```sh\nkubectl create namespace rdmaperf\n")
	commands, _, _ := strings.Cut(rest, "```\n")
	commands, logs, ok := strings.Cut("kubectl create namespace rdmaperf\n"+commands, "kubectl -n rdmaperf logs -f ")
	if !ok {
		t.Fatalf("deploy/README.md has other commands: %q", commands)
	}
	c := exec.Command("sh", "-euxc", commands)
	c.Dir = "../.."
	c.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"))
	t.Cleanup(func() { s.do(t, "", "delete", "namespace", "rdmaperf", "--wait=false") })
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// There is no kubelet that has logs.
	if logs = strings.TrimSpace(logs); logs != "job/run1" {
		t.Errorf("the logs are those of %q", logs)
	}
	testutil.Eventually(t, "the run has a pod", func() bool { return len(s.pods(t, "rdmaperf", "run1")) == 1 })
}
