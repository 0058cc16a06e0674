package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// sizes is a list of message sizes: with commas between them, or from, to and a factor or a step.
type sizes []uint64

// mostSizes is how many there may be: a step that is too small for its range is a mistake.
const mostSizes = 1000

func (s *sizes) String() string { return fmt.Sprint([]uint64(*s)) }
func (s *sizes) Type() string   { return "list" }

func (s *sizes) Set(t string) error {
	var list []uint64
	for part := range strings.SplitSeq(t, ",") {
		more, err := parseRange(part)
		if err != nil {
			return err
		}
		if list = append(list, more...); len(list) > mostSizes {
			return fmt.Errorf("%q has more than %d sizes", t, mostSizes)
		}
	}
	*s = list
	return nil
}

// parseRange reads a size, or 2:8M:x4, or 1K:4K:+512.
func parseRange(t string) ([]uint64, error) {
	p := strings.Split(t, ":")
	if len(p) > 3 {
		return nil, fmt.Errorf("%q is not a range of sizes, such as 2:8M:x4 or 1K:4K:+512", t)
	}
	var from, to size
	if err := from.Set(p[0]); err != nil || len(p) == 1 {
		return []uint64{uint64(from)}, err
	}
	if err := to.Set(p[1]); err != nil {
		return nil, err
	}
	if from > to {
		return nil, fmt.Errorf("%q: the range starts above its end", t)
	}
	factor, step := uint64(2), uint64(0)
	if len(p) == 3 {
		var err error
		switch num := p[2][min(1, len(p[2])):]; {
		case strings.HasPrefix(p[2], "x"):
			if factor, err = strconv.ParseUint(num, 10, 16); err != nil || factor < 2 {
				return nil, fmt.Errorf("factor %q of sizes; allowed: x2 to x65535", p[2])
			}
		case strings.HasPrefix(p[2], "+"):
			if err := (*size)(&step).Set(num); err != nil {
				return nil, err
			}
			factor = 1
		default:
			return nil, fmt.Errorf("step %q of sizes; allowed: a factor such as x4 and a number such as +512", p[2])
		}
	}
	var list []uint64
	for n := uint64(from); n <= uint64(to) && len(list) <= mostSizes; {
		list = append(list, n)
		next := n*factor + step
		if next/factor < n { // more than 64 bits
			break
		}
		n = next
	}
	return slices.Clip(list), nil
}

// together returns an error for flags that exclude each other.
func together(f *pflag.FlagSet) error {
	if f.Changed("sizes") && (f.Changed("size") || f.Changed("all")) {
		return errors.New("give a list of sizes (--sizes), or -s or -a, not both")
	}
	frames := strings.EqualFold(f.Lookup("connection").Value.String(), wire.RawEth.String())
	if f.Changed("tos") && (!f.Changed("rdma-cm") && !frames || f.Changed("tclass")) {
		return errors.New("type of service (--tos, -T): needs rdma_cm (-R) or frames (-c RawEth), and not " +
			"--tclass; without them use --tclass")
	}
	if f.Changed("server") && f.Changed("client") {
		return errors.New("raw Ethernet: give --server or --client, not both")
	}
	if f.Changed("server") && len(f.Args()) > 2 {
		return errors.New("--server: give no SERVER")
	}
	if f.Changed("rate-units") && !f.Changed("rate-limit") {
		return errors.New("unit of rate (--rate-units): needs a rate (--rate-limit)")
	}
	if f.Changed("run-infinitely") && f.Changed("iters") {
		return errors.New("give iterations (-n) or --run-infinitely, not both")
	}
	return nil
}

// place sets the kind of memory: at most one is given.
func (o *options) place(f *pflag.FlagSet, hugePages, dm bool) error {
	m := &o.asked.Memory
	var given []string
	for _, k := range []struct {
		name string
		on   bool
		kind plan.MemoryKind
	}{
		{"use-hugepages", hugePages, plan.HugePages},
		{"mmap", f.Changed("mmap"), plan.File},
		{"use-dm", dm, plan.DeviceMemory},
		{"use-cuda", f.Changed("use-cuda"), plan.CUDA},
		{"use-cuda-bus-id", f.Changed("use-cuda-bus-id"), plan.CUDA},
	} {
		if k.on {
			m.Kind, given = k.kind, append(given, "--"+k.name)
		}
	}
	if len(given) > 1 {
		return fmt.Errorf("more than one kind of memory: give only one of %s", strings.Join(given, ", "))
	}
	for _, name := range []string{"mmap", "use-cuda-bus-id", "cpus"} {
		if fl := f.Lookup(name); fl.Changed && (fl.Value.String() == "" || fl.Value.String() == "[]") {
			return fmt.Errorf("--%s is empty", name)
		}
	}
	m.OnDemand = m.OnDemand || m.Implicit
	return nil
}

// short returns a flag's letter, to print after its long name.
func short(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return ""
	}
	return " (-" + f.Shorthand + ")"
}
