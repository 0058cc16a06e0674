package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// fields is an object of the API server. What this package does not know stays as it is.
type fields = map[string]any

// at returns a part of an object, and makes the objects on the way.
func at(o fields, names ...string) fields {
	for _, n := range names {
		next, ok := o[n].(fields)
		if !ok {
			next = fields{}
			o[n] = next
		}
		o = next
	}
	return o
}

// Template is the pattern of the agents' Job.
type Template struct {
	client   *Client
	metadata fields
	spec     fields
	program  fields // the container rdmaperf
}

// container is the name of the container that runs the agent.
const container = "rdmaperf"

// Template reads the template of Jobs in a CronJob of this pod's namespace.
func (c *Client) Template(ctx context.Context, name string) (*Template, error) {
	var cron fields
	path := "/apis/batch/v1/namespaces/" + c.Namespace + "/cronjobs/" + name
	if err := c.again(ctx, http.MethodGet, path, nil, &cron); err != nil {
		return nil, err
	}
	t := &Template{client: c, metadata: at(cron, "spec", "jobTemplate", "metadata"),
		spec: at(cron, "spec", "jobTemplate", "spec")}
	list, _ := at(t.spec, "template", "spec")["containers"].([]any)
	for _, one := range list {
		if o, ok := one.(fields); ok && o["name"] == container {
			t.program = o
		}
	}
	if t.program == nil || t.spec["completionMode"] != "Indexed" {
		return nil, fmt.Errorf("CronJob %s is no template of agents: it needs a container %q, and completionMode "+
			"Indexed", name, container)
	}
	return t, nil
}

// Run has the values that differ from run to run.
type Run struct {
	ID         string // also the name of the Job
	Owner, UID string // the Job that the run is a pod of: its agents end with it; "" if there is none
	Lease      string // a label: whose Lease they are under
	Hosts      int
	Args       []string // of the agent
}

// Job is the agents of a run.
type Job struct {
	Begun <-chan error // gets nil when its pods may begin, and an error when it has ended

	client *Client
	name   string
	stop   context.CancelFunc
	watch  sync.WaitGroup
	said   map[string]bool
}

// Start makes the Job of a run, which has to have the Lease, and removes those of earlier runs that did not do it
// themselves. say gets what keeps pods from running, on another goroutine, until Calm.
func (t *Template) Start(ctx context.Context, r Run, say func(line string)) (*Job, error) {
	c := t.client
	jobs := "/apis/batch/v1/namespaces/" + c.Namespace + "/jobs"
	earlier := url.Values{"labelSelector": {Label + "=" + r.Lease}, "propagationPolicy": {"Background"}}
	if err := c.again(ctx, http.MethodDelete, jobs+"?"+earlier.Encode(), nil, nil); err != nil {
		return nil, err
	}
	t.spec["completions"], t.spec["parallelism"] = r.Hosts, r.Hosts
	t.program["args"] = r.Args
	o := fields{"apiVersion": "batch/v1", "kind": "Job", "metadata": t.metadata, "spec": t.spec}
	t.metadata["name"] = r.ID
	at(t.metadata, "labels")[Label] = r.Lease
	if r.Owner != "" && r.UID != "" {
		t.metadata["ownerReferences"] = []fields{{"apiVersion": "batch/v1", "kind": "Job",
			"name": r.Owner, "uid": r.UID}}
	}
	// No other run has this name: one that is there is this run's, and its reply was lost.
	if err := c.again(ctx, http.MethodPost, jobs, o, nil); err != nil && code(err) != http.StatusConflict {
		_ = c.remove(r.ID) // it may be there nevertheless
		return nil, err
	}
	begun := make(chan error, 2)
	j := &Job{Begun: begun, client: c, name: r.ID, said: map[string]bool{}}
	watch, stop := context.WithCancel(ctx)
	j.stop = stop
	j.watch.Go(func() { j.look(watch, jobs+"/"+r.ID, begun, say) })
	return j, nil
}

// Calm ends the looks at the pods.
func (j *Job) Calm() { j.stop() }

// Delete removes the Job and its pods, also if the run was told to end.
func (j *Job) Delete() error {
	j.stop()
	j.watch.Wait()
	return j.client.remove(j.name)
}

// remove removes a Job and its pods, if it is there.
func (c *Client) remove(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*requests)
	defer cancel()
	err := c.again(ctx, http.MethodDelete, "/apis/batch/v1/namespaces/"+c.Namespace+"/jobs/"+name+
		"?propagationPolicy=Background", nil, nil)
	if code(err) == http.StatusNotFound {
		return nil
	}
	return err
}

const (
	// looks is the time between two looks at the pods.
	looks = 5 * time.Second
	// mostSaid bounds what is said of them.
	mostSaid = 100
)

// job has the fields of a Job that are read.
type job struct {
	Spec   struct{ Suspend bool } // by Kueue, until there is room
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// end returns why a Job is over, nil if it is not.
func (j *job) end() error {
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Failed" || c.Type == "Complete") {
			return errors.New("the Job of the agents has ended: " + strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	return nil
}

// look says what keeps pods from running, until ctx ends, or the Job.
func (j *Job) look(ctx context.Context, path string, begun chan<- error, say func(string)) {
	for waits := true; ; {
		if !tick.Wait(ctx, looks) {
			return
		}
		var it job
		err := j.client.do(ctx, http.MethodGet, path, nil, &it)
		if ctx.Err() != nil {
			return
		}
		for _, line := range j.troubles(ctx) {
			if !j.said[line] && len(j.said) < mostSaid {
				j.said[line] = true
				say(line)
			}
		}
		if err == nil {
			if err = it.end(); err == nil && waits && !it.Spec.Suspend {
				waits = false
				begun <- nil
			}
		} else if code(err) != http.StatusNotFound {
			continue
		} else {
			err = errors.New("somebody deleted the Job of the agents")
		}
		if err != nil {
			begun <- err
			return
		}
	}
}

// pods has the fields of pods that are read.
type pods struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ NodeName string }
		Status   struct {
			Conditions        []struct{ Type, Status, Reason, Message string }
			ContainerStatuses []struct {
				State struct {
					Waiting    *struct{ Reason, Message string }
					Terminated *struct {
						ExitCode int
						Reason   string
					}
				}
			}
		}
	}
}

// troubles returns what keeps pods from running, or from being made.
func (j *Job) troubles(ctx context.Context) (list []string) {
	base := "/api/v1/namespaces/" + j.client.Namespace
	var all pods
	query := url.Values{"labelSelector": {"batch.kubernetes.io/job-name=" + j.name}}
	if err := j.client.do(ctx, http.MethodGet, base+"/pods?"+query.Encode(), nil, &all); err != nil {
		return nil
	}
	counts := map[string]int{}
	for _, p := range all.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == "PodScheduled" && c.Status == "False" {
				counts[c.Reason+": "+c.Message]++
			}
		}
		for _, c := range p.Status.ContainerStatuses {
			on := p.Metadata.Name + " on " + p.Spec.NodeName
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				list = append(list, fmt.Sprintf("pod %s: %s: %s", on, w.Reason, w.Message))
			}
			if e := c.State.Terminated; e != nil && e.ExitCode != 0 {
				list = append(list, fmt.Sprintf("pod %s: %s, exit code %d", on, e.Reason, e.ExitCode))
			}
		}
	}
	for what, n := range counts {
		list = append(list, fmt.Sprintf("%d pods: %s", n, what))
	}
	var events struct{ Items []struct{ Message string } }
	query = url.Values{"fieldSelector": {"reason=FailedCreate,involvedObject.name=" + j.name}}
	if len(all.Items) == 0 && j.client.do(ctx, http.MethodGet, base+"/events?"+query.Encode(), nil, &events) == nil {
		each := regexp.MustCompile(`"` + regexp.QuoteMeta(j.name) + `-[^"]*"`) // of pods, which say the same
		for _, e := range events.Items {
			list = append(list, each.ReplaceAllString(e.Message, `"`+j.name+`-*"`))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
