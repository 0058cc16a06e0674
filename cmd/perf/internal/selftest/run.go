package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
)

// steps are the twelve, in their order.
var steps = []struct {
	name string
	run  func(s *stage)
}{
	{"host: versions, firmware, PCIe, GIDs, kernel log", hostStep},
	{"transfers: each operation and size, bytes compared", transferStep},
	{"blueflame: order of stores to the doorbell register", blueflameStep},
	{"scatter: payload in completions, null MR, SRQ lists", scatterStep},
	{"failures: syndromes and vendor codes", failureStep},
	{"notify: arm and wake up", notifyStep},
	{"masked atomics: order of words and bytes", maskedStep},
	{"transports: UD, XRC, DC", transportStep},
	{"compressed completions", compressedStep},
	{"on-demand paging of an SRQ's buffers", pagingStep},
	{"figures: rdmaperf and perftest", figureStep},
	{"frames: raw Ethernet", frameStep},
}

// StepCount is the number of steps, which count from 1.
const StepCount = 12

// job describes a step to its process, on standard input.
type job struct {
	Step    int     `json:"step"`
	Options Options `json:"options"`
	Ends    [2]End  `json:"ends"`
}

// Run runs the steps, one process after the other. start returns the command of a process that calls Child with its
// standard input and output. done is called after each step. Run fails only if there is nothing to test; what a step
// found is in the Result.
func Run(ctx context.Context, opt Options, program string, start func(context.Context) *exec.Cmd,
	done func(*Step)) (*Result, error) {
	began := time.Now()
	r := &Result{Tool: "rdmaperf selftest", SchemaVersion: 1, Program: program, Go: runtime.Version(),
		Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Started: began.UTC(), Options: opt, Steps: []Step{}}
	var err error
	if r.Ends, err = findEnds(&opt); err != nil {
		return nil, err
	}
	r.Options, r.Link = opt, r.Ends[0].Link
	for i := range steps {
		if ctx.Err() != nil || opt.Steps != nil && !slices.Contains(opt.Steps, i+1) {
			continue
		}
		s := runStep(ctx, job{i + 1, opt, r.Ends}, start)
		r.Steps = append(r.Steps, s)
		done(&s)
	}
	r.count()
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// grace is how long a process may go on after the time of its step: it ends the check that it is in. Tests shorten it.
var grace = 30 * time.Second

// runStep runs the process of a step. If it does not end, it is told to print its goroutines and to end.
func runStep(ctx context.Context, j job, start func(context.Context) *exec.Cmd) Step {
	began := time.Now()
	limit := time.Duration(j.Options.Seconds)*time.Second + grace
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	in, err := json.Marshal(j)
	if err != nil {
		panic(err) // plain data
	}
	var out, diag bytes.Buffer
	cmd := start(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &diag
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	s := Step{}
	// The last line is the most that the process has reported: it writes its step anew after each check.
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if e := json.Unmarshal(lines[len(lines)-1], &s); e != nil || err != nil {
		s.Number, s.Name, s.Outcome = j.Step, steps[j.Step-1].name, Failed
		s.Reason = fmt.Sprintf("the process of this step reported no end: %v", errors.Join(err, e))
		if ctx.Err() != nil {
			s.Reason = fmt.Sprintf("not done after %v: %v", limit, ctx.Err())
		}
		s.Output = tail(diag.String(), 32<<10)
	}
	if s.Checks == nil {
		s.Checks = []Check{}
	}
	s.Seconds = time.Since(began).Seconds()
	return s
}

// driver is the kernel's driver of the adapters that this is about.
const driver = "mlx5_core"

// findEnds completes the options with devices and ports, and describes the two ends.
func findEnds(opt *Options) (ends [2]End, err error) {
	host := hostfacts.This()
	devs, err := host.Devices()
	if err != nil {
		return ends, fmt.Errorf("devices: %w", err)
	}
	if len(opt.Devices) == 0 {
		for _, d := range devs {
			if d.Driver == driver && activePort(&d, opt.Port) != nil {
				opt.Devices = []string{d.Name}
				break
			}
		}
		if len(opt.Devices) == 0 {
			return ends, fmt.Errorf("no device of %s with an active port in %s; name one with -d", driver,
				host.SysPath("class", "infiniband"))
		}
	}
	if len(opt.Devices) > 2 {
		return ends, fmt.Errorf("%d devices; a test has two ends: name one device or two", len(opt.Devices))
	}
	for i := range ends {
		name := opt.Devices[min(i, len(opt.Devices)-1)]
		k := slices.IndexFunc(devs, func(d hostfacts.Device) bool { return d.Name == name })
		if k < 0 {
			return ends, fmt.Errorf("device (-d) %s is not in %s", name, host.SysPath("class", "infiniband"))
		}
		if ends[i], err = describe(&devs[k], opt, i); err != nil {
			return ends, fmt.Errorf("device (-d) %s: %w", name, err)
		}
	}
	if ends[0].Link != ends[1].Link {
		return ends, fmt.Errorf("%s is %s and %s is %s; a test needs two of a kind", ends[0].Device, ends[0].Link,
			ends[1].Device, ends[1].Link)
	}
	return ends, nil
}

// activePort returns a port that is active: the one with a number, or the first if it is 0.
func activePort(d *hostfacts.Device, number int) *hostfacts.Port {
	for i, p := range d.Ports {
		if p.Active() && (number == 0 || p.Number == number) {
			return &d.Ports[i]
		}
	}
	return nil
}

func describe(d *hostfacts.Device, opt *Options, i int) (e End, err error) {
	p := activePort(d, opt.Port)
	if p == nil && opt.Port == 0 {
		return e, errors.New("no port is active")
	} else if p == nil {
		return e, fmt.Errorf("port %d is not active", opt.Port)
	}
	e = End{Device: d.Name, Driver: d.Driver, Firmware: d.FirmwareVersion, Board: d.BoardID,
		PCIID: hostfacts.This().PCI(d).ID, Port: p.Number, Link: string(p.LinkLayer), Rate: p.Rate, LID: p.LID,
		GIDIndex: opt.GIDs[i], Emulated: d.Emulated()}
	dev, err := ibv.Open(d.Name)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	attr, err := dev.QueryPort(uint8(p.Number))
	if err != nil {
		return e, err
	}
	e.MTU, e.GRH = attr.ActiveMTU.Bytes(), attr.GRHRequired()
	if e.GIDIndex < 0 && p.LinkLayer == hostfacts.InfiniBand {
		e.GIDIndex = 0 // the port's own
	}
	var g ibv.GIDEntry
	if e.GIDIndex < 0 {
		g, err = dev.BestGID(uint8(p.Number))
	} else {
		g, err = dev.QueryGIDEntry(uint8(p.Number), e.GIDIndex)
	}
	if err != nil {
		return e, err
	}
	e.GIDIndex, e.GID, e.GIDType = g.Index, g.GID.String(), g.Type.String()
	return e, nil
}

// Child runs one step, which it reads from in, and writes to out what it has found, a line after each check.
func Child(ctx context.Context, in, out *os.File) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	if j.Step < 1 || j.Step > len(steps) {
		return fmt.Errorf("step %d, want 1 to %d", j.Step, len(steps))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.Options.Seconds)*time.Second)
	defer cancel()
	s := &stage{ctx: ctx, opt: &j.Options, at: &j.Ends, out: json.NewEncoder(out),
		step: Step{Number: j.Step, Name: steps[j.Step-1].name, Checks: []Check{}}}
	steps[j.Step-1].run(s)
	s.step.settle()
	return s.out.Encode(&s.step)
}
