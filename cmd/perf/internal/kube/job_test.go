package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	jobs  = "/apis/batch/v1/namespaces/rdmaperf/jobs"
	crons = "/apis/batch/v1/namespaces/rdmaperf/cronjobs/"
)

// template puts a CronJob there.
func (f *fake) template(t *testing.T, text string) {
	t.Helper()
	var spec fields
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	f.objects[crons+"rdmaperf-agents"] = fields{"spec": fields{"jobTemplate": spec}}
}

const agents = `{"metadata":{"labels":{"app":"rdmaperf-agents"}},"spec":{"completionMode":"Indexed","completions":1,
	"custom":{"kept":true},"template":{"spec":{"containers":[{"name":"sidecar","args":["x"]},
	{"name":"rdmaperf","command":["rdmaperf"],"image":"i"}]}}}}`

// run starts the Job of a run.
func (f *fake) run(t *testing.T, r Run, say func(string)) (*Job, error) {
	t.Helper()
	tpl, err := f.client(t).Template(t.Context(), "rdmaperf-agents")
	if err != nil {
		return nil, err
	}
	return tpl.Start(t.Context(), r, say)
}

// TestJob: the Job is the template, with what the run adds; those of the same Lease are removed before.
func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.template(t, agents)
		for name, lease := range map[string]string{"killed": "rdmaperf-mesh", "neighbour": "racks", "backup": ""} {
			f.objects[jobs+"/"+name] = fields{"metadata": fields{"labels": fields{Label: lease}}}
		}
		j, err := f.run(t, Run{ID: "run1-ab", Owner: "run1", UID: "u-1", Lease: "rdmaperf-mesh", Hosts: 3,
			Args: []string{"serve", "--join", "a:1"}}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if f.objects[jobs+"/killed"] != nil || f.objects[jobs+"/neighbour"] == nil || f.objects[jobs+"/backup"] == nil {
			t.Errorf("%v is left", f.objects)
		}
		text, _ := json.Marshal(f.objects[jobs+"/run1-ab"])
		want := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"app":"rdmaperf-agents",` +
			`"pureverbs/rdmaperf-mesh":"rdmaperf-mesh"},"name":"run1-ab","ownerReferences":[{"apiVersion":"batch/v1",` +
			`"kind":"Job","name":"run1","uid":"u-1"}],"resourceVersion":"1"},"spec":{"completionMode":"Indexed",` +
			`"completions":3,"custom":{"kept":true},"parallelism":3,"template":{"spec":{"containers":[` +
			`{"args":["x"],"name":"sidecar"},` +
			`{"args":["serve","--join","a:1"],"command":["rdmaperf"],"image":"i","name":"rdmaperf"}]}}}}`
		if string(text) != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		for range 2 { // also if somebody else has deleted it
			if err := j.Delete(); err != nil || f.objects[jobs+"/run1-ab"] != nil {
				t.Errorf("%v: %v", err, f.objects)
			}
		}
		for _, r := range f.requests {
			if strings.HasPrefix(r, "DELETE") && !strings.HasSuffix(r, "propagationPolicy=Background") {
				t.Errorf("%s leaves the pods", r)
			}
		}
	})
}

// TestJobRefused: what is wrong with a template, or with the reply to it.
func TestJobRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		template     string
		method, path string // that fail
		code, times  int
		want         string
	}{
		"none":  {"", "", "", 0, 0, "404 Not Found"},
		"empty": {`{}`, "", "", 0, 0, "no template of agents"},
		"not indexed": {strings.Replace(agents, "Indexed", "NonIndexed", 1), "", "", 0, 0,
			"completionMode Indexed"},
		"no container": {strings.Replace(agents, `"rdmaperf"`, `"p"`, 1), "", "", 0, 0, `a container "rdmaperf"`},
		"other types": {`{"spec":{"completionMode":"Indexed","template":{"spec":{"containers":[1,[],null]}}}}`, "", "",
			0, 0, `a container "rdmaperf"`},
		"no right to read":         {agents, "GET", crons + "rdmaperf-agents", 403, 0, "the Role rdmaperf-mesh"},
		"no right to make":         {agents, "POST", jobs, 403, 0, "the Role rdmaperf-mesh"},
		"no right to remove":       {agents, "DELETE", jobs, 403, 0, "the Role rdmaperf-mesh"},
		"failing":                  {agents, "POST", jobs, 500, 3, ""},
		"made, without a reply":    {agents, "POST", jobs, hangs, 1, ""},
		"failing for ever":         {agents, "POST", jobs, 500, 0, "500 Internal Server Error"},
		"the template never comes": {agents, "GET", crons + "rdmaperf-agents", hangs, 0, "no reply within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, n := newFake(), 0
				if tt.template != "" {
					f.template(t, tt.template)
				}
				f.fault = func(method, path string) (int, string, bool) {
					if tt.code == 0 || method != tt.method || path != tt.path || tt.times > 0 && n >= tt.times {
						return 0, "", false
					}
					n++
					return tt.code, `{}`, true
				}
				j, err := f.run(t, Run{ID: "run1", Hosts: 2}, func(string) {})
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if j != nil {
					err = j.Delete()
				}
				if f.objects[jobs+"/run1"] != nil {
					t.Errorf("%v; the Job stays", err)
				}
			})
		})
	}
}

// TestJobTroubles: what keeps pods from running is said once, and the end of the Job is reported.
func TestJobTroubles(t *testing.T) {
	pod := func(name, status string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"nodeName":"n1"},"status":%s}`, name, status)
	}
	state := func(name, s string) string { return pod(name, `{"containerStatuses":[{"state":`+s+`}]}`) }
	waits := func(name, reason, message string) string {
		return state(name, fmt.Sprintf(`{"waiting":{"reason":%q,"message":%q}}`, reason, message))
	}
	placed := func(name, status, message string) string {
		return pod(name, fmt.Sprintf(`{"conditions":[{"type":"PodScheduled","status":%q,"reason":"Unschedulable",
			"message":%q}]}`, status, message))
	}
	for name, tt := range map[string]struct {
		pods   []string
		events string
		status string // of the Job
		gone   bool
		says   []string

		suspended bool
		ends      string
	}{
		"all well": {pods: []string{state("a", `{"running":{}}`), waits("b", "ContainerCreating", ""),
			placed("c", "True", "")}},
		"no node": {pods: []string{placed("a", "False", "0/3 nodes"), placed("b", "False", "0/3 nodes")},
			says: []string{"2 pods: Unschedulable: 0/3 nodes"}},
		"no image": {pods: []string{waits("a", "ImagePullBackOff", "no such image")},
			says: []string{"pod a on n1: ImagePullBackOff: no such image"}},
		"fails": {pods: []string{state("a", `{"terminated":{"exitCode":1,"reason":"Error"}}`),
			state("b", `{"terminated":{"exitCode":0}}`)}, says: []string{"pod a on n1: Error, exit code 1"}},
		"forbidden": {events: `{"message":"pods \"run1-0-abc\" violates"},{"message":"pods \"run1-1-de\" violates"}`,
			says: []string{`pods "run1-*" violates`}},
		"failed": {status: `{"conditions":[{"type":"Failed","status":"True","reason":"FailedIndexes",
			"message":"all"}]}`, ends: "FailedIndexes all"},
		"not yet": {status: `{"conditions":[{"type":"Failed","status":"False"},
			{"type":"SuccessCriteriaMet","status":"True"}]}`},
		"in a queue": {suspended: true},
		"deleted":    {gone: true, ends: "somebody deleted"},
		"many":       {pods: slices.Repeat([]string{waits("a", "X", "")}, 3), says: []string{"pod a on n1: X: "}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.template(t, agents)
				var list, events, status any
				for text, into := range map[string]*any{"[" + strings.Join(tt.pods, ",") + "]": &list,
					"[" + tt.events + "] ": &events, tt.status + " ": &status} {
					if strings.TrimSpace(text) != "" {
						if err := json.Unmarshal([]byte(text), into); err != nil {
							t.Fatal(err)
						}
					}
				}
				f.objects["/api/v1/namespaces/rdmaperf/pods"] = fields{"items": list}
				f.objects["/api/v1/namespaces/rdmaperf/events"] = fields{"items": events}
				var said []string
				j, err := f.run(t, Run{ID: "run1", Hosts: 2}, func(line string) { said = append(said, line) })
				if err != nil {
					t.Fatal(err)
				}
				f.mu.Lock()
				at(f.objects[jobs+"/run1"], "spec")["suspend"] = tt.suspended
				if f.objects[jobs+"/run1"]["status"] = status; tt.gone {
					delete(f.objects, jobs+"/run1")
				}
				f.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				ended, began := "", false
				for range len(j.Begun) {
					if err := <-j.Begun; err != nil {
						ended = err.Error()
					} else {
						began = true
					}
				}
				if want := !tt.suspended && tt.ends == ""; began != want {
					t.Errorf("the pods may begin: %v, want %v", began, want)
				}
				j.Calm()
				j.Calm()
				n := f.count()
				time.Sleep(time.Minute)
				if f.count() != n {
					t.Errorf("%d requests after Calm", f.count()-n)
				}
				if !slices.Equal(said, tt.says) || !strings.Contains(ended, tt.ends) || ended != "" && tt.ends == "" {
					t.Errorf("%q, %q; want %q, %q", said, ended, tt.says, tt.ends)
				}
				if err := j.Delete(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestJobInterrupted: a run that is told to end, or whose Lease is lost, removes its Job.
func TestJobInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.template(t, agents)
		tpl, err := f.client(t).Template(t.Context(), "rdmaperf-agents")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		j, err := tpl.Start(ctx, Run{ID: "run1", Hosts: 2}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		n := 0
		f.fault = func(method, _ string) (int, string, bool) {
			if n++; method == http.MethodDelete && n < 3 {
				return 500, "{}", false
			}
			return 0, "", false
		}
		if err := j.Delete(); err != nil || f.objects[jobs+"/run1"] != nil {
			t.Errorf("%v: %v", err, f.objects)
		}
	})
}
