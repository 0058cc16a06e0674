package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// pace sets the maximum rate of each queue pair in the adapter.
func (s *Session) pace() error {
	r := s.plan.Load.Rate
	if !r.Hardware {
		return nil
	}
	limit := ibv.RateLimit{Rate: uint32(r.Kbits(s.plan.Load.Size, s.plan.Queues.QPs)), TypicalPacket: uint16(r.Packet),
		MaxBurst: uint32(uint64(r.Burst) * s.plan.Load.Size)}
	for _, qp := range s.qps[:s.plan.Queues.QPs] {
		if err := qp.ModifyRateLimit(limit); err != nil {
			return err
		}
	}
	return nil
}

// checkPacing refuses a rate that the adapter cannot keep to, before a peer comes.
func (s *Session) checkPacing() error {
	r := s.plan.Load.Rate
	if !r.Hardware {
		return nil
	}
	const instead = "let the software do it (--rate-limit-type SW)"
	var caps ibv.PacketPacingCaps
	if s.attr.Ex != nil {
		caps = s.attr.Ex.PacketPacing
	}
	t, each := s.plan.QPType(), r.Kbits(s.plan.Load.Size, s.plan.Queues.QPs)
	switch {
	case caps.Max == 0:
		return fmt.Errorf("rate (--rate-limit) by the adapter: %s paces no packets (it reports 0 to 0 kb/s); %s",
			s.dev.Name(), instead)
	case !caps.QPTypes.Has(t):
		return fmt.Errorf("rate (--rate-limit) by the adapter: %s paces %v, not %v (-c); %s", s.dev.Name(),
			caps.QPTypes, t, instead)
	case each < uint64(caps.Min) || each > uint64(caps.Max):
		return fmt.Errorf("rate (--rate-limit) by the adapter: %d kb/s for each queue pair, the range of "+
			"%s is %d to %d; %s", each, s.dev.Name(), caps.Min, caps.Max, instead)
	}
	return nil
}
