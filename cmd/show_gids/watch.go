package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// Bounds of --watch.
const (
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Hour
)

// watch prints the output of show, and prints it again after each change, until ctx ends. It polls, because sysfs does
// not report changes.
func (c *config) watch(ctx context.Context, stdout, stderr io.Writer) int {
	var lastOut, lastDiag []byte
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		var out, diag bytes.Buffer
		c.show(ctx, &out, &diag)
		if ctx.Err() != nil {
			return exitOK // perhaps during a name lookup
		}
		if !bytes.Equal(diag.Bytes(), lastDiag) {
			lastDiag = diag.Bytes()
			stderr.Write(lastDiag)
		}
		if first || !bytes.Equal(out.Bytes(), lastOut) {
			lastOut = out.Bytes()
			if err := c.again(stdout, lastOut, first); err != nil {
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

// again prints a table below the time, so that tables can be told apart. Indices and JSON need no separator.
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
