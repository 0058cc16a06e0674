package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	hosts = 3
	// All pods are in one network namespace here, so each run has another port.
	common = `"-s", "64", "--ib-dev=all", "--listen=127.0.0.1:0"`
	quick  = `["-n", "20", ` + common + `]`
	long   = `["-D", "600", ` + common + `]`
	hasty  = `["--lease-wait=0", ` + common + `]`
	few    = `["--retry=10", "-n", "20", ` + common + `]`
)

// cluster makes nodes, and a namespace with the manifests.
func (s *server) cluster(t *testing.T, options string) (ns string) {
	t.Helper()
	for i := range hosts {
		s.node(t, fmt.Sprintf("rdma%d", i+1), true)
	}
	ns = s.namespace(t, "privileged")
	s.apply(t, ns, hosts, options)
	return ns
}

// apply installs the manifests with options of rdmaperf mesh.
func (s *server) apply(t *testing.T, ns string, n int, options string) {
	t.Helper()
	s.do(t, "", "apply", "-k", site(t, ns, "hosts: 8", fmt.Sprintf("hosts: %d", n), `["--order=rounds"]`, options)+
		"/hostnetwork")
}

// measured checks the tables of a run.
func (k *kubelet) measured(pod string) {
	k.t.Helper()
	for n := range hosts {
		if text := k.text(pod); !strings.Contains(text, fmt.Sprintf("rdma%d ", n+1)) {
			k.t.Errorf("rdma%d is not in the tables:\n%s", n+1, text)
		}
	}
}

// TestEmuKube_Mesh: a run takes the Lease, makes agents on all nodes, measures, and leaves nothing behind.
func TestEmuKube_Mesh(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, quick))
	pod := k.begin("mesh")[0]
	k.ends("mesh", pod, 0)
	k.measured(pod)
	k.freed()
	if strings.Contains(k.text(pod), "rdmaperf: ") {
		t.Errorf("it complains: %s", k.text(pod))
	}
}

// TestEmuKube_Lease: of three runs at once one measures, and the others wait without any node and name the holder.
// Each measures in its turn.
func TestEmuKube_Lease(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, quick))
	runs := []string{"run1", "run2", "run3"}
	waited := 0
	for i, pod := range k.begin(runs...) {
		k.ends(runs[i], pod, 0)
		k.measured(pod)
		if strings.Contains(k.text(pod), "has the nodes (Lease "+k.ns+"/rdmaperf-mesh, since ") {
			waited++
		}
	}
	k.freed()
	if waited != len(runs)-1 {
		t.Errorf("%d of %d runs waited", waited, len(runs))
	}
}

// TestEmuKube_LeaseWait: a run that may not wait ends with 1, and names the holder. A run that is deleted gives
// them back.
func TestEmuKube_LeaseWait(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, long))
	k.begin("first")
	k.working("first")
	s.apply(t, k.ns, hosts, hasty)
	second := k.begin("second")[0]
	k.ends("second", second, 1)
	if text := k.text(second); !strings.Contains(text, "the run first-") || strings.Count(text, "\n") != 1 {
		t.Errorf("the second run: %s", text)
	}
	s.do(t, "", "-n", k.ns, "delete", "job", "first", "--wait=false")
	start := time.Now()
	k.freed()
	t.Logf("the nodes were free after %.1f s", time.Since(start).Seconds())
	s.apply(t, k.ns, hosts, quick)
	third := k.begin("third")[0]
	k.ends("third", third, 0)
	k.measured(third)
	k.freed()
}

// TestEmuKube_LeaseKilled: a run that is killed frees its nodes, and another one that waits gets all of them.
func TestEmuKube_LeaseKilled(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, long))
	first := k.begin("first")[0]
	k.working("first")
	s.apply(t, k.ns, hosts, quick)
	second := k.begin("second")[0]
	k.prints(second, "the run first-")
	fmt.Fprintf(k.shell, "kill -9 $(cat %s/%s.pid)\n", k.dir, first)
	start := time.Now()
	k.ends("second", second, 0)
	t.Logf("the second run had measured %.1f s later", time.Since(start).Seconds())
	k.measured(second)
	k.freed()
	k.ends("first", first, 137)
}

// TestEmuKube_LeaseRefused: without its Role a run ends with 1 and names the Role, and has no agents.
func TestEmuKube_LeaseRefused(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, quick))
	s.do(t, "", "-n", k.ns, "delete", "rolebinding", "rdmaperf-mesh")
	pod := k.begin("run")[0]
	k.ends("run", pod, 1)
	if text := k.text(pod); !strings.Contains(text, "the Role rdmaperf-mesh and its RoleBinding") {
		t.Errorf("%s", text)
	}
	// It may read the template, and not take the Lease.
	s.do(t, "", "-n", k.ns, "create", "role", "less", "--verb=get", "--resource=cronjobs.batch")
	s.do(t, "", "-n", k.ns, "create", "rolebinding", "less", "--role=less", "--serviceaccount="+k.ns+":rdmaperf-mesh")
	pod = k.begin("again")[0]
	k.ends("again", pod, 1)
	if text := k.text(pod); !strings.Contains(text, "/leases/rdmaperf-mesh: 403") ||
		!strings.Contains(text, "the Role rdmaperf-mesh and its RoleBinding") {
		t.Errorf("%s", text)
	}
	if k.agents > 0 {
		t.Errorf("%d agents", k.agents)
	}
}

// TestEmuKube_Troubles: a run says why agents do not come, measures those that do, and has nothing at the end.
func TestEmuKube_Troubles(t *testing.T) {
	s := need(t)
	k := s.kubelet(t, s.cluster(t, quick))
	s.apply(t, k.ns, hosts+2, few)
	pod := k.begin("more")[0]
	k.ends("more", pod, 1)
	k.measured(pod)
	for _, want := range []string{"agents: 2 pods: Unschedulable: ", ", 2 hosts did not come"} {
		if !strings.Contains(k.text(pod), want) {
			t.Errorf("no %q in %s", want, k.text(pod))
		}
	}
	k.freed()
	s.do(t, "", "label", "--overwrite", "namespace", k.ns, "pod-security.kubernetes.io/enforce=restricted")
	pod = k.begin("forbidden")[0]
	k.ends("forbidden", pod, 1)
	for _, want := range []string{`violates PodSecurity "restricted`, "5 of 5 hosts did not come"} {
		if strings.Count(k.text(pod), want) != 1 {
			t.Errorf("not one %q in %s", want, k.text(pod))
		}
	}
	k.freed()
}
