package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// Lock is the Lease of a run.
type Lock struct {
	Client          *Client
	Namespace, Name string
	ID              string        // of the run; no other one has it
	Wait            time.Duration // for the nodes, while another run has them

	// Say gets what the run waits for, now and then, and each time that it changes (news).
	Say func(said string, news bool)

	metadata map[string]any // of the object as it was read last
}

// LostError means that the Lease is no longer this run's: another one may have the nodes.
type LostError struct {
	Lease, Holder string // "": nobody is known
	Err           error  // why it could not be renewed
}

// Error returns one line.
func (e *LostError) Error() string {
	if e.Holder != "" {
		return fmt.Sprintf("the Lease %s was lost: %s has it now", e.Lease, e.Holder)
	}
	return fmt.Sprintf("the Lease %s was lost: it could not be renewed for %v: %v", e.Lease, Limit, e.Err)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

func (l *Lock) lease() string { return l.Namespace + "/" + l.Name }

// Take waits until the Lease is this run's, for Wait. The context that it returns ends when the Lease is lost, with a
// *LostError as its cause. release gives the Lease back.
func (l *Lock) Take(ctx context.Context) (held context.Context, release func() error, err error) {
	c := &Claim{ID: l.ID}
	if err := l.take(ctx, c); err != nil {
		if c.seen.Holder == c.ID || !c.known { // a write that had no reply may have had an effect
			_ = l.release(c)
		}
		return nil, nil, err
	}
	held, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.keep(held, c, lose)
	}()
	return held, func() error {
		lose(nil)
		<-done
		if c.State != Held {
			return nil
		}
		return l.release(c)
	}, nil
}

// take is Take without the rest.
func (l *Lock) take(ctx context.Context, c *Claim) error {
	began := time.Now()
	var failing time.Time // since when nothing has succeeded
	holder := ""
	for c.State == Waiting {
		do, wait := c.Next(time.Now())
		if do == Sleep {
			if !tick.Wait(ctx, wait) {
				return l.gaveUp(ctx, c)
			}
			continue
		}
		err := l.act(ctx, c, do)
		now := time.Now()
		switch {
		case err == nil:
			failing = time.Time{}
		case ctx.Err() != nil:
			return l.gaveUp(ctx, c)
		case !passes(err):
			return err
		case failing.IsZero():
			failing = now
			l.Say(fmt.Sprintf("trying again: %v", err), true)
		case now.Sub(failing) >= patience && (holder == "" || now.Sub(began) >= l.Wait):
			return err
		}
		if err != nil || c.State == Held || c.Free(now) {
			continue
		}
		if c.Foreign() {
			return fmt.Errorf("the Lease %s belongs to %s, which is no run of rdmaperf mesh; choose another name "+
				"(--lease)",
				l.lease(), c.seen.Holder)
		}
		left := l.Wait - now.Sub(began)
		if left <= 0 {
			has := cmp.Or(lists.When(l.Wait > 0, fmt.Sprintf("still has the nodes after %v", l.Wait)), "has the nodes")
			return fmt.Errorf("the run %s %s (Lease %s, since %s); wait longer with --lease-wait", c.seen.Holder, has,
				l.lease(), c.seen.Acquired)
		}
		c.next = now.Add(min(c.next.Sub(now), left))
		l.Say(fmt.Sprintf("the run %s has the nodes (Lease %s, since %s); waiting for another %v", c.seen.Holder,
			l.lease(), c.seen.Acquired, left.Round(time.Second)), holder != c.seen.Holder)
		holder = c.seen.Holder
	}
	return nil
}

// gaveUp is the error of a run that was interrupted before it had the Lease.
func (l *Lock) gaveUp(ctx context.Context, c *Claim) error {
	if c.seen.Holder == "" || c.seen.Holder == c.ID {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the run %s has the nodes (Lease %s)", context.Cause(ctx), c.seen.Holder, l.lease())
}

// keep renews the Lease until ctx ends, or the Lease is lost.
func (l *Lock) keep(ctx context.Context, c *Claim, lose context.CancelCauseFunc) {
	var last error
	for {
		do, wait := c.Next(time.Now())
		switch do {
		case Sleep:
			if !tick.Wait(ctx, wait) {
				return
			}
			continue
		case Stop:
			lose(&LostError{Lease: l.lease(), Err: last, Holder: lists.When(c.known, c.seen.Holder)})
			return
		}
		if err := l.act(ctx, c, do); err != nil {
			last = err
		}
	}
}

// act does what a claim wants, and enters the outcome.
func (l *Lock) act(ctx context.Context, c *Claim, do Action) error {
	began := time.Now()
	var r Record
	var err error
	if do == Get {
		r, err = l.get(ctx)
	} else {
		r, err = l.put(ctx, c.Wants(began.UTC().Format(microTime)))
	}
	now := time.Now()
	switch {
	case err == nil && do == Get:
		c.Read(now, r)
	case err == nil:
		c.Wrote(began, r)
	case code(err) == http.StatusConflict, code(err) == http.StatusNotFound && do == Put && c.seen.Version != "":
		c.Conflict(now)
		return nil
	default:
		c.Failed(now, status(err).Pause)
	}
	return err
}

// release gives the Lease back, also if the run was told to end. Another run need not wait until it has run out.
func (l *Lock) release(c *Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*requests)
	defer cancel()
	for {
		r, err := l.get(ctx)
		if err == nil && r.Holder != c.ID {
			return nil
		}
		if err == nil {
			r.Holder, r.Duration = "", time.Second
			_, err = l.put(ctx, r)
		}
		if err == nil || ctx.Err() != nil || !passes(err) && code(err) != http.StatusConflict {
			return err
		}
		if !tick.Wait(ctx, polls/4) {
			return err
		}
	}
}

// microTime is the format of times in a Lease.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// object is a Lease as the API server has it.
type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
		AcquireTime          string `json:"acquireTime,omitempty"`
		RenewTime            string `json:"renewTime,omitempty"`
		LeaseTransitions     int    `json:"leaseTransitions"`
	} `json:"spec"`
}

// Label is on each object that a run of rdmaperf mesh makes. Its value names the Lease of the run.
const Label = "pureverbs/rdmaperf-mesh"

// Label returns the value of the label of objects under this Lease.
func (l *Lock) Label() string {
	if l.Namespace == l.Client.Namespace {
		return l.Name
	}
	return l.Namespace + "." + l.Name
}

func (l *Lock) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + l.Namespace + "/leases"
}

// get reads the Lease. One that is not there has no version.
func (l *Lock) get(ctx context.Context) (Record, error) {
	var o object
	err := l.Client.do(ctx, http.MethodGet, l.path()+"/"+l.Name, nil, &o)
	if code(err) == http.StatusNotFound {
		return Record{}, nil
	}
	return l.record(&o, err)
}

// record returns what an object says.
func (l *Lock) record(o *object, err error) (Record, error) {
	version, _ := o.Metadata["resourceVersion"].(string)
	if err == nil && (o.Kind != "Lease" || version == "") {
		err = fmt.Errorf("the API server's reply for Lease %s is a %q of version %q", l.lease(), o.Kind, version)
	}
	if err != nil {
		return Record{}, err
	}
	l.metadata = o.Metadata
	labels, _ := o.Metadata["labels"].(map[string]any)
	_, ours := labels[Label]
	s := o.Spec
	const most = 1 << 31
	return Record{Version: version, Holder: s.HolderIdentity, Acquired: s.AcquireTime, Renewed: s.RenewTime,
		Duration:    time.Duration(min(max(s.LeaseDurationSeconds, 0), most)) * time.Second,
		Transitions: s.LeaseTransitions, Ours: ours}, nil
}

// put writes the Lease, or makes it if it has no version.
func (l *Lock) put(ctx context.Context, r Record) (Record, error) {
	var o object
	o.APIVersion, o.Kind = "coordination.k8s.io/v1", "Lease"
	o.Metadata = map[string]any{"name": l.Name, "namespace": l.Namespace}
	method, path := http.MethodPost, l.path()
	if r.Version != "" {
		method, path = http.MethodPut, path+"/"+l.Name
		maps.Copy(o.Metadata, l.metadata) // what others wrote there stays
		delete(o.Metadata, "managedFields")
		o.Metadata["resourceVersion"] = r.Version
	}
	labels := map[string]any{}
	if there, ok := o.Metadata["labels"].(map[string]any); ok {
		maps.Copy(labels, there)
	}
	labels[Label] = l.Name
	o.Metadata["labels"] = labels
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = r.Holder, int(r.Duration/time.Second)
	o.Spec.AcquireTime, o.Spec.RenewTime, o.Spec.LeaseTransitions = r.Acquired, r.Renewed, r.Transitions
	var reply object
	err := l.Client.do(ctx, method, path, &o, &reply)
	return l.record(&reply, err)
}
