package command

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// cluster is an API server that keeps a Lease, and lists what it is asked.
type cluster struct {
	mu    sync.Mutex
	lease map[string]any
	taken bool // by another run
	asked []string
	job   string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(text), `"holderIdentity":"nightly-`) || r.Method != "PUT" { // a renewal
		c.asked = append(c.asked, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/ns/")+4:])
	}
	switch what := r.URL.Path; {
	case strings.Contains(what, "/leases") && r.Method == "GET" && c.lease == nil:
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(what, "/leases") && r.Method == "GET":
		json.NewEncoder(w).Encode(c.lease)
	case strings.Contains(what, "/leases") && c.taken && r.Method == "PUT":
		w.WriteHeader(http.StatusConflict)
	case strings.Contains(what, "/leases"):
		c.lease = nil
		json.Unmarshal(text, &c.lease)
		c.lease["metadata"].(map[string]any)["resourceVersion"] = "1"
		json.NewEncoder(w).Encode(c.lease)
	case strings.HasSuffix(what, "/cronjobs/agents"):
		io.WriteString(w, `{"spec":{"jobTemplate":{"spec":{"completionMode":"Indexed","template":{"spec":{"containers":[
			{"name":"rdmaperf"}]}}}}}}`)
	case strings.HasSuffix(what, "/jobs") && r.Method == "POST":
		c.job = string(text)
	}
}

// holder returns the name of the run that has the Lease.
func (c *cluster) holder() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec, _ := c.lease["spec"].(map[string]any)
	name, _ := spec["holderIdentity"].(string)
	return name
}

// on prepares a mesh in a pod of the cluster.
func (c *cluster) on(t *testing.T, words ...string) *meshOptions {
	t.Helper()
	s := httptest.NewTLSServer(c)
	t.Cleanup(s.Close)
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	t.Setenv("RDMAPERF_RUN", "nightly")
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, text := range map[string]string{"token": "t", "namespace": "ns", "ca.crt": string(ca),
		"secret": "0123456789abcdef"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := meshLine(append([]string{"--job-from", "agents", "--expect", "2", "--listen", "127.0.0.1:0",
		"--token-file", filepath.Join(dir, "secret")}, words...), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.kube.account = dir
	return m
}

// TestMeshLease: a run takes the Lease before it makes agents, and gives it back after it has removed them.
func TestMeshLease(t *testing.T) {
	var c cluster
	m := c.on(t, "-d", "mlx5_7", "--test-ports", "1-9")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var diag strings.Builder
	ended := make(chan int, 1)
	go func() {
		v := &invocation{stderr: &diag}
		v.end(runMesh(ctx, m, nil, io.Discard, &diag))
		ended <- v.code
	}()
	testutil.Eventually(t, "the run has a Job", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.job != ""
	})
	if id := c.holder(); !regexp.MustCompile(`^nightly-[0-9a-f]{8}$`).MatchString(id) ||
		!strings.Contains(c.job, `"name":"`+id+`"`) {
		t.Errorf("%q has the Lease; the Job is %s", id, c.job)
	}
	where := regexp.MustCompile(`"args":\["serve","--join","127.0.0.1:[0-9]+","--token-file","` + m.tokenFile +
		`","-d","mlx5_7","--test-ports","1-9"\]`)
	if !where.MatchString(c.job) {
		t.Errorf("the Job is %s", c.job)
	}
	cancel()
	if rc := <-ended; rc != exitFailure || !strings.Contains(diag.String(), "hosts have come") {
		t.Errorf("exit code %d: %s", rc, &diag)
	}
	var order []string
	for _, a := range c.asked {
		if strings.HasPrefix(a, "GET") && !strings.Contains(a, "cronjobs") {
			continue
		}
		if a, _, _ = strings.Cut(a, " "); len(order) == 0 || order[len(order)-1] != a {
			order = append(order, a)
		}
	}
	// The template, the Lease, earlier agents, the agents; these are removed, and then it is given back.
	want := []string{"GET", "POST", "DELETE", "POST", "DELETE", "PUT"}
	if !slices.Equal(order, want) || c.holder() != "" {
		t.Errorf("%q, want %q; %q has the Lease: %q", order, want, c.holder(), c.asked)
	}
}

// TestMeshLeaseLost: a run whose Lease another one takes ends, with 1 and the reason.
func TestMeshLeaseLost(t *testing.T) {
	var c cluster
	m := c.on(t)
	var diag strings.Builder
	ended := make(chan int, 1)
	go func() {
		v := &invocation{stderr: &diag}
		v.end(runMesh(t.Context(), m, nil, io.Discard, &diag))
		ended <- v.code
	}()
	testutil.Eventually(t, "the run has the Lease", func() bool { return c.holder() != "" })
	c.mu.Lock()
	c.taken = true
	c.lease["spec"].(map[string]any)["holderIdentity"] = "another"
	c.mu.Unlock()
	rc := <-ended
	if want := "the Lease ns/rdmaperf-mesh was lost: another has it now"; rc != exitFailure ||
		!strings.Contains(diag.String(), want) || c.holder() != "another" {
		t.Errorf("exit code %d: %s", rc, &diag)
	}
}
