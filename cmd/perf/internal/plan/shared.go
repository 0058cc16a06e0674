package plan

// Shares reports whether all receives of this end come from one queue.
func (p *Plan) Shares() bool {
	return p.Receives() && (p.Queues.UseSRQ || p.Transport.OneWay())
}

// sharers returns how many queue pairs receive from one queue.
func (p *Plan) sharers() int {
	if p.Shares() {
		return p.Queues.QPs
	}
	return 1
}

// RxEach returns how many receives each queue pair brings along.
func (p *Plan) RxEach() int { return p.Queues.RxDepth / p.sharers() }

// Ends returns how many queue pairs this end makes. Where a queue pair has one direction (XRC, DC)
// and both are needed, there are twice as many, first those that send.
func (p *Plan) Ends() int {
	if p.Transport.OneWay() && (p.Load.Bidirectional || !p.Bandwidth()) {
		return 2 * p.Queues.QPs
	}
	return p.Queues.QPs
}

// Partner returns which of the peer's queue pairs number i is connected to.
func (p *Plan) Partner(i int) int {
	if n := p.Ends(); n > p.Queues.QPs {
		return (i + p.Queues.QPs) % n
	}
	return i
}

// Target reports whether number i only receives, as one end of XRC and of DC does.
func (p *Plan) Target(i int) bool {
	return p.Transport.OneWay() && (i >= p.Queues.QPs || p.Ends() == p.Queues.QPs && !p.Client())
}
