package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// listens is the message of rdmaperf when it is ready as a server.
var listens = regexp.MustCompile(`waiting for a client on TCP port ([0-9]{1,5})\n`)

// diagnosis keeps the beginning of a test's stderr, and searches it for the port.
type diagnosis struct {
	text  bytes.Buffer
	found func(port int) error
}

func (d *diagnosis) Write(b []byte) (int, error) {
	const most = 8 << 10
	d.text.Write(b[:min(len(b), most-min(d.text.Len(), most))])
	if m := listens.FindSubmatch(d.text.Bytes()); m != nil && d.found != nil {
		port, _ := strconv.Atoi(string(m[1]))
		found := d.found
		d.found = nil
		if err := found(port); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// told returns the messages of a failed test, in one line.
func (d *diagnosis) told(err error) string {
	said := strings.TrimSpace(listens.ReplaceAllString(d.text.String(), ""))
	said = strings.Join(strings.Fields(strings.ReplaceAll(said, "rdmaperf: ", "")), " ")
	return cmp.Or(said, err.Error())
}

// ExitUnmet is the exit code of an rdmaperf with a secret of its test, if its end did not meet the other one.
const ExitUnmet = 4

// output keeps what a test prints.
type output struct{ bytes.Buffer }

func (o *output) Write(b []byte) (int, error) {
	if o.Len()+len(b) > maxReply-1024 {
		return 0, errors.New("the result is too long")
	}
	return o.Buffer.Write(b)
}

// result is the part of what rdmaperf --json prints that is read here.
type result struct {
	Peer struct {
		Address string `json:"address"`
		Version string `json:"perftest_version"`
	} `json:"peer"`
	Results []struct {
		Bytes uint64  `json:"bytes"`
		Bits  float64 `json:"bandwidth_bits_per_second"`
		P50   float64 `json:"latency_p50_ns"`
		P99   float64 `json:"latency_p99_ns"`
		Max   float64 `json:"latency_max_ns"`
	} `json:"results"`
}

// Child runs each end of a test in a process, an rdmaperf.
type Child struct{ Program []string }

// Run is a Runner.
func (c Child) Run(ctx context.Context, t Task, listening func(port int) error) (f Figures, err error) {
	var cpu starve.Waits
	out, err := c.output(ctx, t, listening, &cpu)
	if f.CPU = &cpu; err != nil || t.Server() {
		return f, err
	}
	var said result
	if err := json.Unmarshal(out, &said); err != nil {
		return f, err
	}
	if len(said.Results) != 1 {
		return f, errNoFigure
	}
	r := &said.Results[0]
	f.Bits, f.P50, f.P99, f.Max = r.Bits, r.P50, r.P99, r.Max
	return f, nil
}

// output returns what a test prints, and measures how its process waits for CPUs. The process ends with ctx and with
// this one.
func (c Child) output(ctx context.Context, t Task, listening func(port int) error, cpu *starve.Waits) ([]byte, error) {
	runtime.LockOSThread() // the process gets a signal when the thread that started it ends
	defer runtime.UnlockOSThread()
	if !t.Test.Infinite { // that one ends when its client leaves
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Test.Duration*2+mostDuration)
		defer cancel()
	}
	args := slices.Concat(c.Program[1:], t.Words())
	diag := &diagnosis{}
	if t.Server() {
		diag.found = listening
	}
	var out output
	cmd := exec.CommandContext(ctx, c.Program[0], args...)
	cmd.Stdout, cmd.Stderr = &out, diag
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), wire.SecretEnv+"="+string(t.Test.Secret))
	dieWithParent(cmd)
	err := cmd.Start()
	if err == nil {
		m := starve.New(cmd.Process.Pid)
		stop := tick.Every(sampling, m.Sample)
		err = cmd.Wait()
		stop()
		*cpu = m.Waits()
	}
	if err != nil {
		text := errors.New(diag.told(err))
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == ExitUnmet {
			return nil, &wire.MeetError{Err: text}
		}
		return nil, text
	}
	return out.Bytes(), nil
}

// sampling is the time between looks at a process. Once it has ended, there is nothing to look at.
const sampling = 25 * time.Millisecond
