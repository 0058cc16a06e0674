package rs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
)

// StreamOptions are those of rstream and riostream.
type StreamOptions struct {
	Options
	Iterations, Count, Size int
	Verify                  bool
}

// ParseStream reads the command line of rstream or riostream.
func ParseStream(name string, args []string) (*StreamOptions, error) {
	o := &StreamOptions{}
	f := cm.Flags(name)
	o.Flags(f, "7471")
	f.IntVarP(&o.Iterations, "iterations", "I", 1, "`number` of times, the same on both sides")
	f.IntVarP(&o.Count, "count", "C", 1000, "`number` of transfers each time, the same on both sides")
	f.IntVarP(&o.Size, "size", "S", 1000, "`bytes` in a transfer, the same on both sides")
	Tests(f, map[string]func(){
		"async":       func() { o.Wait = Async },
		"nonblocking": func() { o.Wait = Nonblocking },
		"blocking":    func() { o.Wait = Blocking },
		"verify":      func() { o.Verify = true },
	})
	err := cm.Parse(f, args, fmt.Sprintf("%s [options]\n%[1]s -s HOST [options]\n", name), func() error {
		return errors.Join(o.Check(),
			cm.Within("-I", o.Iterations, 1, math.MaxInt32),
			cm.Within("-C", o.Count, 1, math.MaxInt32),
			cm.Within("-S", o.Size, 1, 1<<30))
	})
	return o, err
}

// Report prints how long the transfers took, both ways.
func (o *StreamOptions) Report(out io.Writer, took time.Duration) {
	note := ""
	if o.Verify {
		note = ", every byte as it should be"
	}
	Report(out, 2*o.Iterations*o.Count, o.Size, took, note)
}

// Report prints how long transfers took.
func Report(out io.Writer, transfers, size int, took time.Duration, note string) {
	s := max(took.Seconds(), 1e-9)
	fmt.Fprintf(out, "%d transfers of %d bytes in %.3f s: %.2f Gb/s, %.2f µs each%s\n", transfers, size, s,
		float64(transfers)*float64(size)*8/s/1e9, s*1e6/float64(transfers), note)
}
