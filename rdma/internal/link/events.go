package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
)

// eventsMost is how many events wait for EngineOptions.OnEvent.
const eventsMost = 1024

// callOnEvent calls OnEvent for each event that waits.
func (e *Engine) callOnEvent() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case ev := <-e.events:
			if e.Foreign.Wait(e.ctx.Done(), func() { e.Options.OnEvent(ev) }) == foreign.ErrLeft {
				return // the engine is closed
			}
		}
	}
}

// forward passes an event that may concern the program to EngineOptions.OnEvent. It reports whether the event is of an
// object of the program's, on the Device that they share, and so does not concern the engine.
func (e *Engine) forward(ev ibv.AsyncEvent) bool {
	others := ev.WQ != nil
	switch {
	case ev.CQ != nil:
		_, own := e.own.Load(ev.CQ)
		others = !own
	case ev.SRQ != nil:
		_, own := e.own.Load(ev.SRQ)
		others = !own
	case ev.QP != nil:
		_, own := e.own.Load(ev.QP)
		e.eachPacket(ev.QP, func(*PacketSocket) { own = true })
		others = !own && e.link(ev.QP.Num()) == nil
	}
	general := ev.Port != 0 || ev.Type == ibv.EventDeviceFatal
	if others || general {
		select {
		case e.events <- ev:
		default: // too many wait, or there is no OnEvent
		}
	}
	return others
}
