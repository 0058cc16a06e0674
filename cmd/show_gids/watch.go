package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Bounds of --watch.
const (
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Hour
)

// watch prints what show does, and again whenever it has become something else, until ctx ends. sysfs tells nobody of a
// change, so it is read every so often.
func (c *config) watch(ctx context.Context, stdout, stderr io.Writer) int {
	var last []byte
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		var out, diag bytes.Buffer
		c.show(&out, &diag)
		if now := slices.Concat(out.Bytes(), []byte{0}, diag.Bytes()); first || !bytes.Equal(now, last) {
			last = now
			stderr.Write(diag.Bytes())
			if err := c.again(stdout, out.Bytes(), first); err != nil {
				say(stderr, err)
				return exitNothing
			}
		}
		select {
		case <-ctx.Done():
			return exitOK
		case <-tick.C:
		}
	}
}

// again prints a table below the time, so that one can be told from the next; indices and JSON need nothing between.
func (c *config) again(w io.Writer, text []byte, first bool) error {
	var head string
	if !c.best && c.format != formatJSON {
		head = time.Now().Format("2006-01-02 15:04:05\n")
		if !first {
			head = "\n" + head
		}
	}
	_, err := fmt.Fprintf(w, "%s%s", head, text)
	return err
}
