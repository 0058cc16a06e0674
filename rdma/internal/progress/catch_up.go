package progress

// CatchUp handles what has come. It returns early if stop is closed.
func (p *Progress) CatchUp(stop <-chan struct{}) {
	if p.manual != nil {
		_, _ = p.Poll() // Options.Fail has the error
		return
	}
	caught := p.ask()
	took := false
	for {
		s := p.load()
		var n state
		n, took = s.ask()
		if s.has(closed) {
			return
		}
		if p.swap(s, n) {
			break
		}
	}
	if took {
		p.cover(0, false)
	} else {
		select {
		case <-caught:
		case <-stop:
		}
	}
	p.Wake()
}

// ask returns a channel that is closed when the CQ was found empty after this.
func (p *Progress) ask() <-chan struct{} {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.caught == nil {
		p.caught = make(chan struct{})
		p.asked.Store(true)
	}
	return p.caught
}

// takeAsked returns what is to be closed when the CQ was found empty, or nil.
func (p *Progress) takeAsked() (caught chan struct{}) {
	if !p.asked.Load() {
		return nil
	}
	p.askMu.Lock()
	defer p.askMu.Unlock()
	caught, p.caught = p.caught, nil
	p.asked.Store(false)
	return caught
}
