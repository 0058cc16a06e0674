package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// stage is where a step runs.
type stage struct {
	ctx  context.Context // ends with the time of the step
	opt  *Options
	at   *[2]End
	out  *json.Encoder
	step Step
}

// check runs one check of the step. When the time of the step is over, the checks that are left are skipped.
func (s *stage) check(name string, f func(b *box)) {
	began := time.Now()
	b := &box{stage: s, check: Check{Name: name, Outcome: Passed}}
	if s.ctx.Err() != nil {
		b.check.Outcome, b.check.Reason = Skipped, "the time of the step was over"
	} else {
		err := b.run(f)
		switch {
		case errors.Is(err, ibv.ErrNotSupported), errors.As(err, new(*skipError)):
			b.check.Outcome = Skipped
		case err != nil:
			b.check.Outcome = Failed
		}
		if err != nil {
			b.check.Reason = err.Error()
		}
	}
	b.check.Seconds = time.Since(began).Seconds()
	s.step.Checks = append(s.step.Checks, b.check)
	_ = s.out.Encode(&s.step) // if the parent is gone, nobody wants it
}

// box holds the objects that a check has opened, and its report. Its methods are for the check's own goroutine.
type box struct {
	*stage
	check Check
	open  []io.Closer
}

// stop ends a check, as FailNow ends a test.
type stop struct{ err error }

// skipError ends a check that makes no sense here.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

func (b *box) run(f func(b *box)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s, ok := p.(stop)
			if !ok {
				panic(p)
			}
			err = s.err
		}
		for _, c := range slices.Backward(b.open) {
			if e := c.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("close: %w", e))
			}
		}
	}()
	f(b)
	return nil
}

// ok ends the check on an error.
func (b *box) ok(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// fail ends the check.
func (b *box) fail(format string, v ...any) { panic(stop{fmt.Errorf(format, v...)}) }

// skip ends the check, which the device or this user cannot do.
func (b *box) skip(format string, v ...any) { panic(stop{&skipError{fmt.Sprintf(format, v...)}}) }

func (b *box) note(format string, v ...any) {
	b.check.Notes = append(b.check.Notes, fmt.Sprintf(format, v...))
}

func (b *box) figure(name string, v float64) {
	if b.check.Figures == nil {
		b.check.Figures = map[string]float64{}
	}
	b.check.Figures[name] = v
}

// own ends the check on an error. Otherwise v is closed at the end of the check, the latest first.
func own[T io.Closer](v T, err error) func(b *box) T {
	return func(b *box) T {
		b.ok(err)
		b.open = append(b.open, v)
		return v
	}
}

// must ends the check on an error.
func must[T any](v T, err error) func(b *box) T {
	return func(b *box) T { b.ok(err); return v }
}

// closeNow closes v, which own opened, before the end of the check.
func closeNow[T interface {
	io.Closer
	comparable
}](b *box, v T) {
	i := slices.IndexFunc(b.open, func(c io.Closer) bool { t, ok := c.(T); return ok && t == v })
	b.open = slices.Delete(b.open, i, i+1)
	b.ok(v.Close())
}
