package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is an API server in memory, as far as runs need it. It keeps the rules of versions.
type fake struct {
	mu       sync.Mutex
	objects  map[string]fields // by path
	version  int
	requests []string
	// fault replaces the reply to a request, unless it returns 0. With late, the request has its effect first.
	fault func(method, path string) (code int, body string, late bool)
	delay func() time.Duration
}

func newFake() *fake { return &fake{objects: map[string]fields{}} }

// client returns a client of the API server.
func (f *fake) client(t testing.TB) *Client {
	c := &Client{Namespace: "rdmaperf", base: "https://api", account: t.TempDir()}
	if err := os.WriteFile(filepath.Join(c.account, "token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.http.Transport = f
	return c
}

// hangs is the code of a request without a reply.
const hangs = -1

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	var body fields
	if r.Body != nil {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
	}
	if f.delay != nil {
		select {
		case <-time.After(f.delay()):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	code, text, late := 0, "", false
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	if f.fault != nil {
		code, text, late = f.fault(r.Method, r.URL.Path)
	}
	if code == 0 {
		code, text = f.serve(r, body)
	} else if late {
		f.serve(r, body)
	}
	f.mu.Unlock()
	if code == hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h := http.Header{}
	if pause, rest, ok := strings.Cut(text, " pause "); ok {
		text = rest
		h.Set("Retry-After", pause)
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(bytes.NewBufferString(text)), Request: r}, nil
}

// serve serves a request.
func (f *fake) serve(r *http.Request, body fields) (int, string) {
	reply := func(code int, o any) (int, string) {
		text, _ := json.Marshal(o)
		return code, string(text)
	}
	status := func(code int) (int, string) {
		return reply(code, fields{"kind": "Status", "message": "as the test says " + strconv.Itoa(code)})
	}
	if r.Header.Get("Authorization") != "Bearer secret" {
		return status(http.StatusUnauthorized)
	}
	path := r.URL.Path
	_, there := f.objects[path]
	write := func(path string, code int) (int, string) {
		f.version++
		at(body, "metadata")["resourceVersion"] = strconv.Itoa(f.version)
		f.objects[path] = body
		return reply(code, body)
	}
	switch r.Method {
	case http.MethodPost:
		path += "/" + at(body, "metadata")["name"].(string)
		if _, there = f.objects[path]; there {
			return status(http.StatusConflict)
		}
		return write(path, http.StatusCreated)
	case http.MethodGet:
		if strings.HasSuffix(path, "/pods") || strings.HasSuffix(path, "/events") {
			return reply(http.StatusOK, fields{"items": f.objects[path]["items"]})
		}
		if there {
			return reply(http.StatusOK, f.objects[path])
		}
	case http.MethodPut:
		if there && at(f.objects[path], "metadata")["resourceVersion"] != at(body, "metadata")["resourceVersion"] {
			return status(http.StatusConflict)
		} else if there {
			return write(path, http.StatusOK)
		}
	case http.MethodDelete:
		if label := r.URL.Query().Get("labelSelector"); label != "" {
			key, value, _ := strings.Cut(label, "=")
			for at1, o := range f.objects {
				if strings.HasPrefix(at1, path+"/") && at(o, "metadata", "labels")[key] == value {
					delete(f.objects, at1)
				}
			}
			return status(http.StatusOK)
		}
		if there {
			delete(f.objects, path)
			return status(http.StatusOK)
		}
	}
	return status(http.StatusNotFound)
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/rdmaperf/leases"

// holder returns the name of the run that has the Lease.
func (f *fake) holder() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, _ := at(f.objects[leases+"/rdmaperf-mesh"], "spec")["holderIdentity"].(string)
	return name
}

// count returns the number of requests.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// have puts a Lease there.
func (f *fake) have(holder, renewed string, seconds int, ours bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	labels := fields{"team": "net"}
	if ours {
		labels[Label] = "rdmaperf-mesh"
	}
	f.objects[leases+"/rdmaperf-mesh"] = fields{"kind": "Lease",
		"metadata": fields{"name": "rdmaperf-mesh", "namespace": "rdmaperf", "resourceVersion": fmt.Sprint(f.version),
			"labels": labels, "managedFields": []any{fields{}}},
		"spec": fields{"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed,
			"acquireTime": renewed}}
}

// lock returns the Lock of a run.
func (f *fake) lock(t testing.TB, id string, wait time.Duration, said *lines) *Lock {
	return &Lock{Client: f.client(t), Namespace: "rdmaperf", Name: "rdmaperf-mesh", ID: id, Wait: wait, Say: said.say}
}

// lines is what was said.
type lines struct {
	mu   sync.Mutex
	news []string
	all  int
}

func (l *lines) say(line string, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all++; news {
		l.news = append(l.news, line)
	}
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.news, "\n")
}
