package rdma

import "github.com/pureverbs/pureverbs/ibv"

// forward calls EngineOptions.OnEvent with an event that may concern the program. It reports whether the event is of an
// object of the program's, on the Device that they share, and so does not concern the engine.
func (e *Engine) forward(ev ibv.AsyncEvent) bool {
	foreign := ev.WQ != nil
	switch {
	case ev.CQ != nil:
		_, own := e.own.Load(ev.CQ)
		foreign = !own
	case ev.SRQ != nil:
		_, own := e.own.Load(ev.SRQ)
		foreign = !own
	case ev.QP != nil:
		_, own := e.own.Load(ev.QP)
		foreign = !own && e.link(ev.QP.Num()) == nil && !e.hasPacketQP(ev.QP)
	}
	general := ev.Port != 0 || ev.Type == ibv.EventDeviceFatal
	if f := e.opt.OnEvent; f != nil && (foreign || general) {
		f(ev)
	}
	return foreign
}

func (e *Engine) hasPacketQP(qp *ibv.QP) bool {
	packets := &e.shards[0].packets
	for i := range packets {
		if c := packets[i].Load(); c != nil {
			c.mu.Lock()
			same := c.qp == qp
			c.mu.Unlock()
			if same {
				return true
			}
		}
	}
	return false
}
