package mlx5

// faults has the data of a queue's error completions, by the number of the work request: how many were posted up to it.
// Of failures that did not end the queue (a QP can leave SQE) it has the last.
type faults struct {
	failed           uint32 // the one that failed and was not flushed, if any
	from, to         uint32 // those that were flushed, if flushed
	lost             uint32 // the newest one of an earlier failure, if forgot
	syndrome, vendor uint8  // of failed
	any, flushed     bool
	forgot           bool
}

const flushSyndrome = 0x05

func (f *faults) note(n uint32, syndrome, vendor uint8) {
	flush := syndrome == flushSyndrome
	if flush && f.flushed && n == f.to+1 {
		f.to = n
		return
	}
	switch { // a failure, and the first flush after it, are one
	case f.flushed:
		f.lost, f.forgot, f.any, f.flushed = f.to, true, false, false
	case f.any && !flush:
		f.lost, f.forgot = f.failed, true
	}
	if flush {
		f.from, f.to, f.flushed = n, n, true
	} else {
		f.failed, f.syndrome, f.vendor, f.any = n, syndrome, vendor, true
	}
}

// Outcome is the outcome of a work request.
type Outcome uint8

// The outcomes.
const (
	Unknown   Outcome = iota
	Pending           // no completion was polled
	Completed         // it succeeded
	Failed
	Flushed
)

// outcome is that of the completed work request n; of a failed one with the status and the vendor's syndrome.
func (f *faults) outcome(n uint32) (o Outcome, status, vendor uint32) {
	switch {
	case f.any && n == f.failed:
		return Failed, statusOf(f.syndrome), uint32(f.vendor)
	case f.flushed && n-f.from <= f.to-f.from:
		return Flushed, statusOf(flushSyndrome), 0
	case f.forgot && int32(n-f.lost) <= 0:
		return Unknown, 0, 0
	}
	return Completed, 0, 0
}
