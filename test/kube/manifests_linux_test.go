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

// site returns a copy of the manifests whose values are changed, as an administrator would.
func site(t *testing.T, edit ...string) (dir string) {
	t.Helper()
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
		text := s.do(t, "", "kustomize", filepath.Join(site(t), v))
		s.do(t, text, "-n", ns, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		for _, tt := range [][3]string{
			{"clusterIP:", "clusterIp:", "unknown field"},
			{"completions: 8", "completions: many", "cannot unmarshal string"},
			{"completionMode: Indexed", "completionMode: Index", "Unsupported value"},
			{"restartPolicy: Never", "restartPolicy: Always", "Required value"},
			{"name: perf-mesh\n", "name: perf_mesh\n", "DNS-1035"},
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
	dir := site(t, "name: perf-registry", "name: pull", "schedulerName: default-scheduler", "schedulerName: gangs",
		`priorityClassName: ""`, "priorityClassName: system-node-critical", "\nqueue: \"\"", "\nqueue: gpus")
	s.do(t, "", "-n", ns, "apply", "-k", filepath.Join(dir, "hostnetwork"))
	got := s.do(t, "", "-n", ns, "get", "cronjob", "perf-mesh", "-o", `jsonpath={.spec.jobTemplate.metadata.labels} `+
		`{.spec.jobTemplate.spec.template.spec['imagePullSecrets','schedulerName','priorityClassName']}`)
	for _, want := range []string{`"kueue.x-k8s.io/queue-name":"gpus"`, `"name":"pull"`, "gangs",
		"system-node-critical"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// pod is what the tests read of one.
type pod struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		NodeName, Hostname, Subdomain string
	}
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

// says reports how a pod ended, or that it runs, as its kubelet would.
func (s *server) says(t *testing.T, ns, name, phase string, code int, addr string) {
	t.Helper()
	state := fmt.Sprintf(`{"terminated":{"exitCode":%d,"reason":"Completed"}}`, code)
	if phase == "Running" {
		state = `{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`
	}
	s.do(t, "", "-n", ns, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"phase":%q,"podIP":%q,"podIPs":[{"ip":%[2]q}],"containerStatuses":[{"name":"perf","image":"i","imageID":"i",
		"ready":false,"restartCount":0,"state":%s}]}}`, phase, addr, state))
}

// TestEmuKube_Runs: pods are on the nodes that have adapters, one on each, though these have a taint; a second run
// needs no change of the first; it waits for the nodes; a pod that fails does not end the others.
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
	s.do(t, "", "-n", ns, "apply", "-k", filepath.Join(site(t, "hosts: 8", "hosts: 3"), "hostnetwork"))
	s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/perf-mesh", "first")
	testutil.Eventually(t, "the first run is placed", func() bool { return len(s.nodesOf(t, ns, "first")) == 3 })
	if got := s.nodesOf(t, ns, "first"); !slices.Equal(got, gpus) {
		t.Errorf("the pods are on %q, want %q", got, gpus)
	}
	pods := s.pods(t, ns, "first")
	for i, p := range pods {
		if want := fmt.Sprintf("first-%d", i); p.Spec.Hostname != want || p.Spec.Subdomain != "perf-mesh" {
			t.Errorf("pod %d is %s.%s, want %s.perf-mesh", i, p.Spec.Hostname, p.Spec.Subdomain, want)
		}
		s.says(t, ns, p.Metadata.Name, "Running", 0, fmt.Sprintf("10.1.0.%d", i+1))
	}
	// Its endpoint has the name that PERF_JOIN has, so DNS has it.
	want := "10.1.0.1 first-0"
	testutil.Eventually(t, "the service has "+want, func() bool {
		out := s.do(t, "", "-n", ns, "get", "endpointslices", "-o",
			`jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {.hostname}{"\n"}{end}`)
		return strings.Contains(out, want+"\n")
	})

	// Another number of hosts is another apply, and a second run another name.
	s.do(t, "", "-n", ns, "apply", "-k", filepath.Join(site(t, "hosts: 8", "hosts: 2"), "hostnetwork"))
	s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/perf-mesh", "second")
	testutil.Eventually(t, "the second run has pods", func() bool { return len(s.pods(t, ns, "second")) == 2 })
	testutil.Eventually(t, "the scheduler has looked at the second run", func() bool {
		out := s.do(t, "", "-n", ns, "get", "events", "--field-selector=reason=FailedScheduling", "-o",
			"jsonpath={.items[*].involvedObject.name}")
		return strings.Contains(out, "second-0") && strings.Contains(out, "second-1")
	})
	if on := s.nodesOf(t, ns, "second"); len(on) > 0 {
		t.Errorf("two runs share %q", on)
	}
	s.says(t, ns, pods[2].Metadata.Name, "Failed", 1, "10.1.0.3")
	testutil.Eventually(t, "the failed pod is counted", func() bool {
		return s.do(t, "", "-n", ns, "get", "job", "first", "-o", "jsonpath={.status.failedIndexes}") == "2"
	})
	if left := s.pods(t, ns, "first"); len(left) != 3 || left[0].Status.Phase != "Running" {
		t.Errorf("after one pod failed: %+v", left)
	}
	for _, p := range pods[:2] {
		s.says(t, ns, p.Metadata.Name, "Succeeded", 0, "10.1.0.1")
	}
	testutil.Eventually(t, "the first run ends as failed", func() bool {
		return strings.Contains(s.do(t, "", "-n", ns, "get", "job", "first", "-o",
			"jsonpath={.status.conditions[*].type}"), "Failed")
	})
	testutil.Eventually(t, "the second run is placed", func() bool { return len(s.nodesOf(t, ns, "second")) == 2 })
}

// TestEmuKube_PodSecurity: which variant needs which level.
func TestEmuKube_PodSecurity(t *testing.T) {
	s := need(t)
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		for _, v := range variants {
			t.Run(v+"_"+level, func(t *testing.T) {
				ns := s.namespace(t, level)
				s.do(t, "", "-n", ns, "apply", "-k", filepath.Join(site(t, "hosts: 8", "hosts: 2"), v))
				s.do(t, "", "-n", ns, "create", "job", "--from=cronjob/perf-mesh", "run")
				var pods int
				var refusal string
				testutil.Eventually(t, "pods, or a refusal", func() bool {
					pods = len(s.pods(t, ns, "run"))
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
				if out := s.do(t, "", "-n", ns, "describe", "job", "run"); strings.Contains(out, want) == admitted {
					t.Errorf("kubectl describe job:\n%s", out)
				}
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
	_, rest, _ := strings.Cut(string(text), "```sh\nkubectl create namespace perf\n")
	commands, _, _ := strings.Cut(rest, "```\n")
	commands, logs, ok := strings.Cut("kubectl create namespace perf\n"+commands, "kubectl -n perf logs -f -l ")
	if !ok {
		t.Fatalf("deploy/README.md has other commands: %q", commands)
	}
	c := exec.Command("sh", "-euxc", commands)
	c.Dir = "../.."
	c.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"))
	t.Cleanup(func() { s.do(t, "", "delete", "namespace", "perf", "--wait=false") })
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var list struct{ Items []pod }
	testutil.Eventually(t, "the run has pods", func() bool {
		s.get(t, &list, "-n", "perf", "pods", "-l", "batch.kubernetes.io/job-name=run1")
		return len(list.Items) == 8
	})
	// There is no kubelet that has logs; the labels must select pod 0.
	s.get(t, &list, "-n", "perf", "pods", "-l", strings.TrimSpace(logs))
	if len(list.Items) != 1 || !strings.HasPrefix(list.Items[0].Metadata.Name, "run1-0-") {
		t.Errorf("%q selects %+v", logs, list.Items)
	}
}
