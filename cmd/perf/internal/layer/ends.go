package layer

// connect adds the connections, and returns a function for the memory of those after the first one, if there are any.
func (w *work) connect(res *Result, next func() (pipe, error)) (grown func() *Memory, err error) {
	var first Memory
	for i := range w.Conns {
		p, err := next()
		if err != nil {
			return nil, err
		}
		w.pipes = append(w.pipes, p)
		w.moved.Add(1)
		if l := p.link(); l != nil && i == 0 {
			res.Transport = l.Transport()
		}
		if i == 0 && w.Conns > 1 {
			first = memory(w.engine())
		}
	}
	return func() *Memory {
		if w.Conns == 1 {
			return nil
		}
		return memory(w.engine()).beyond(first)
	}, nil
}

// run has the order's part of a run.
func (w *work) run() Run {
	return Run{Carrier: w.Carrier, Bytes: w.Size, Conns: w.Conns, Messages: w.Messages * w.Conns}
}

// loop chooses the loop of an end.
func (w *work) loop(latency, copying, other part) part {
	switch {
	case w.Latency:
		return latency
	case w.Carrier == Copy:
		return copying
	}
	return other
}

// used returns what the work has used since before.
func (w *work) used(before Usage) *Usage {
	used := now(w.engine()).since(before)
	if c, ok := w.pipes[0].(*copyPipe); ok {
		used.Copying = c.seconds()
	}
	return &used
}
