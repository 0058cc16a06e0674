//go:build linux

package cm

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// cmState is how far a connection is, as the InfiniBand CM sees it.
type cmState uint8

const (
	cmNone cmState = iota // the id never had a connection
	cmIdle
	cmReqSent
	cmReqRcvd
	cmRepSent
	cmRepRcvd
	cmEstablished
	cmDreqSent
	cmDreqRcvd
	cmTimewait
	cmSidrReqSent
	cmSidrReqRcvd
)

// conn is one end of a connection, an id's.
type conn struct {
	cm                           cmState
	peer                         *id // nil when the other end is gone, or no longer knows of us
	asked                        int // how often the last message was sent
	param                        connParam
	ece                          ece
	psn, sqPSN, remoteQPN        uint32
	respRes, initDepth, rnrRetry uint8
	retry                        uint8
	mtu                          config.MTU
}

// tell reports an event to the program, if the id is in a connection.
func (s *Server) tell(i *id, kind uint32, status int32, param []byte, x ece) {
	if i.state == stConnect {
		s.emit(i, kind, status, param, x)
	}
}

// part breaks the link between two ends.
func part(i *id) {
	if p := i.peer; p != nil {
		i.peer = nil
		if p.peer == i {
			p.peer = nil
		}
	}
}

func (i *id) toIdle() {
	i.stop()
	i.cm = cmIdle
	part(i)
}

// toTimewait keeps the connection's numbers out of use until none of its packets can still be on the way.
func (s *Server) toTimewait(i *id) {
	part(i)
	i.cm = cmTimewait
	d := s.timewait
	if d == 0 {
		d = time.Millisecond << min(max(int(i.qpTimeout())-8, 0), 23)
	}
	i.after(d, func() {
		i.cm = cmIdle
		if i.state == stDisconnect {
			s.emit(i, evTimewaitExit, 0, nil, ece{})
		}
	})
}

func (s *Server) connect(r *request, i *id, cmd *connect) unix.Errno {
	room, first := privateREQ, cmReqSent
	if i.qpType == hca.UD {
		room, first = privateSIDRREQ, cmSidrReqSent
	}
	p := cmd.Param
	if r.in < connectMin || p.Valid == 0 || i.state != stRouteResolved || int(p.Len) > room {
		return unix.EINVAL
	}
	if r.in < uapi.Size[connect]() {
		cmd.ECE = ece{}
	}
	p.Retry, p.RNRRetry, p.SRQ, p.FlowControl = min(p.Retry, 7), min(p.RNRRetry, 7), min(p.SRQ, 1), p.FlowControl&1
	p.QPNum &= 0xffffff
	i.param, i.ece, i.asked = p, cmd.ECE, 0
	i.respRes, i.initDepth, i.retry = p.RespRes, p.InitDepth, p.Retry
	i.state, i.cm = stConnect, first
	s.ask(i)
	return 0
}

// received is what the other end sees of a message with room for private data.
func (p *connParam) received(room uint8) connParam {
	ev := connParam{QPNum: p.QPNum & 0xffffff, Len: room, SRQ: min(p.SRQ, 1), RespRes: p.InitDepth,
		InitDepth: p.RespRes, FlowControl: p.FlowControl & 1, RNRRetry: min(p.RNRRetry, 7)}
	copy(ev.Private[:], p.Private[:p.Len])
	return ev
}

// ask sends an active end's request, and repeats it until it is answered or given up.
func (s *Server) ask(i *id) {
	if i.cm != cmReqSent && i.cm != cmSidrReqSent {
		return
	}
	if i.asked > retries {
		i.toIdle()
		s.tell(i, evUnreachable, -int32(unix.ETIMEDOUT), nil, ece{})
		return
	}
	i.asked++
	i.after(s.response, func() { s.ask(i) })
	// a multicast address has no port
	if i.peer == nil && i.port.Active && i.remote.port != nil && i.remote.port.Active {
		s.request(i)
	}
}

// request carries a REQ or a SIDR REQ to the listener.
func (s *Server) request(i *id) {
	l, some := s.listener(i)
	ud := i.qpType == hca.UD
	typ := i.qpType
	if typ == hca.XRCSend {
		typ = hca.XRCRecv
	}
	if l == nil || l.qpType != typ && l.qpType != 0 {
		switch {
		case ud && some:
			s.sidrReply(i, sidrReject, nil, nil)
		case ud:
			s.sidrReply(i, sidrUnsupported, nil, nil)
		case some:
			s.recvREJ(i, rejConsumer, nil)
		default:
			s.recvREJ(i, rejInvalidServiceID, nil)
		}
		return
	}
	var n *id
	if l.backlog > 0 {
		n = s.newID(l.file, l.ps, typ)
	}
	if n == nil {
		// A REQ is asked again, as its sender would after a lost packet; a SIDR REQ is turned down.
		if ud {
			s.sidrReply(i, sidrReject, nil, nil)
		}
		return
	}
	n.hidden, n.state, n.cm = true, stConnect, cmReqRcvd
	n.src, n.dst, n.routed = i.dst, i.src, true
	n.attach(i.remote)
	n.remote = i.local
	n.peer, i.peer = i, n
	n.mtu, n.ece = i.mtu, i.ece
	n.remoteQPN, n.sqPSN = i.param.QPNum, i.psn
	n.respRes, n.initDepth, n.retry, n.rnrRetry = i.param.InitDepth, i.param.RespRes, i.param.Retry, i.param.RNRRetry
	n.tos = i.tos
	var param []byte
	if ud {
		n.cm = cmSidrReqRcvd
		u := udParam{Len: privateSIDRREQ}
		copy(u.Private[:], i.param.Private[:i.param.Len])
		param = uapi.Bytes(&u)
	} else {
		p := i.param.received(privateREQ)
		p.Retry = i.param.Retry
		param = uapi.Bytes(&p)
	}
	ev := newEvent(l, evConnectRequest, 0, param, i.ece)
	ev.resp.ID, ev.conn = n.num, n
	l.backlog--
	if !s.queue(l.file, ev) {
		l.backlog++
		s.destroy(n)
	}
}

func (s *Server) listen(r *request, i *id, cmd *idAndNumber) unix.Errno {
	if i.state == stIdle {
		if e := s.bindID(i, address{family: unix.AF_INET, ip: unspecified(unix.AF_INET)}); e != 0 {
			return e
		}
	}
	if i.state != stAddrBound {
		return unix.EINVAL
	}
	if i.reuse {
		if e := s.checkPort(portKey{i.ps, i.src.port}, i, false); e != 0 {
			return e
		}
	}
	if i.backlog = cmd.Number; int32(cmd.Number) <= 0 || cmd.Number > maxBacklog {
		i.backlog = maxBacklog
	}
	i.state = stListen
	return 0
}

func (s *Server) accept(r *request, i *id, cmd *accept) unix.Errno {
	if r.in < acceptMin || i.state != stConnect {
		return unix.EINVAL
	}
	if r.in < uapi.Size[accept]() {
		cmd.ECE = ece{}
	}
	var e unix.Errno
	switch p := &cmd.Param; {
	case i.qpType == hca.UD:
		e = s.sendSIDR(i, p, cmd.ECE)
	case p.Valid == 0:
		e = s.sendRTU(i)
	default:
		e = s.sendREP(i, p, cmd.ECE)
	}
	if e != 0 {
		s.turnDown(i, rejConsumer, nil)
		return e
	}
	if cmd.Param.Valid != 0 {
		i.uid = cmd.UID
	}
	return 0
}

func (s *Server) sendREP(i *id, p *connParam, x ece) unix.Errno {
	if i.cm != cmReqRcvd || int(p.Len) > privateREP {
		return unix.EINVAL
	}
	i.respRes, i.initDepth = p.RespRes, p.InitDepth
	i.param, i.ece, i.cm = *p, x, cmRepSent
	peer := i.peer
	i.after(s.response*(retries+1), func() {
		if i.cm == cmRepSent {
			i.toIdle()
			s.tell(i, evUnreachable, -int32(unix.ETIMEDOUT), nil, ece{})
		}
	})
	if peer == nil || peer.cm != cmReqSent {
		return 0
	}
	peer.stop()
	peer.cm = cmRepRcvd
	peer.remoteQPN, peer.sqPSN = p.QPNum&0xffffff, i.psn
	peer.respRes, peer.initDepth, peer.rnrRetry = p.InitDepth, p.RespRes, min(p.RNRRetry, 7)
	ev := p.received(privateREP)
	s.tell(peer, evConnectResponse, 0, uapi.Bytes(&ev), x)
	return 0
}

// sendRTU reports that the active end is ready as well.
func (s *Server) sendRTU(i *id) unix.Errno {
	if i.cm != cmRepRcvd {
		return unix.EINVAL
	}
	i.cm = cmEstablished
	if p := i.peer; p != nil && p.cm == cmRepSent {
		s.established(p)
	}
	return 0
}

func (s *Server) established(i *id) {
	i.stop()
	i.cm = cmEstablished
	s.tell(i, evEstablished, 0, nil, ece{})
}

func (s *Server) reject(r *request, i *id, cmd *reject) unix.Errno {
	switch cmd.Reason {
	case 0:
		cmd.Reason = rejConsumer
	case rejConsumer, rejVendorOption:
	default:
		return unix.EINVAL
	}
	return s.turnDown(i, cmd.Reason, cmd.Private[:cmd.Len])
}

// turnDown rejects the other end's request or answer.
func (s *Server) turnDown(i *id, reason uint8, private []byte) unix.Errno {
	peer, room := i.peer, privateREJ
	if i.qpType == hca.UD {
		room = privateSIDRREP
	}
	if len(private) > room {
		return unix.EINVAL
	}
	switch i.cm {
	case cmSidrReqRcvd:
		if i.toIdle(); peer != nil {
			s.sidrReply(peer, sidrReject, nil, private)
		}
		return 0
	case cmReqSent, cmReqRcvd, cmRepRcvd:
		i.toIdle()
	case cmRepSent:
		s.toTimewait(i)
	default:
		return unix.EINVAL
	}
	if peer != nil {
		s.recvREJ(peer, reason, private)
	}
	return 0
}

func (s *Server) recvREJ(i *id, reason uint8, private []byte) {
	switch i.cm {
	case cmReqSent, cmReqRcvd, cmRepSent:
		i.toIdle()
	case cmRepRcvd, cmEstablished, cmDreqSent:
		s.toTimewait(i)
	default:
		return
	}
	p := connParam{Len: privateREJ}
	copy(p.Private[:], private)
	s.tell(i, evRejected, int32(reason), uapi.Bytes(&p), ece{})
}

func (s *Server) disconnect(r *request, i *id, cmd *idOnly) unix.Errno {
	switch i.cm {
	case cmNone:
		return unix.EINVAL
	case cmEstablished:
		s.sendDREQ(i)
	case cmDreqRcvd:
		s.sendDREP(i)
	}
	return 0
}

func (s *Server) sendDREQ(i *id) {
	i.cm = cmDreqSent
	if i.peer == nil {
		// The CM answers for connections that it does not know.
		s.recvDREP(i, 0)
		return
	}
	i.after(s.response*(retries+1), func() { s.recvDREP(i, -int32(unix.ETIMEDOUT)) })
	s.recvDREQ(i.peer)
}

func (s *Server) recvDREQ(i *id) {
	if i.cm == cmEstablished || i.cm == cmRepSent || i.cm == cmDreqSent {
		i.stop()
		i.cm = cmDreqRcvd
		s.disconnected(i, 0)
	}
}

func (s *Server) sendDREP(i *id) {
	peer := i.peer
	s.toTimewait(i)
	if peer != nil {
		s.recvDREP(peer, 0)
	}
}

func (s *Server) recvDREP(i *id, status int32) {
	if i.cm == cmDreqSent || i.cm == cmDreqRcvd {
		s.toTimewait(i)
		s.disconnected(i, status)
	}
}

func (s *Server) disconnected(i *id, status int32) {
	if i.state == stConnect {
		i.state = stDisconnect
		s.emit(i, evDisconnected, status, nil, ece{})
	}
}

// leave ends an id's connection, whatever its state, as destroying the id does.
func (s *Server) leave(i *id) {
	peer := i.peer
	was := i.cm
	i.stop()
	part(i)
	i.cm = cmIdle
	if peer == nil {
		return
	}
	switch was {
	case cmReqSent:
		s.recvREJ(peer, rejTimeout, nil)
	case cmReqRcvd, cmRepSent, cmRepRcvd:
		s.recvREJ(peer, rejConsumer, nil)
	case cmEstablished:
		s.recvDREQ(peer)
	case cmDreqRcvd:
		s.recvDREP(peer, 0)
	case cmSidrReqRcvd:
		s.sidrReply(peer, sidrReject, nil, nil)
	}
}

func (s *Server) notify(_ *request, i *id, cmd *idAndNumber) unix.Errno {
	const commEst = 4 // IB_EVENT_COMM_EST
	switch {
	case i.cm == cmNone || cmd.Number != commEst:
		return unix.EINVAL
	case i.cm == cmEstablished:
		return unix.EISCONN
	case i.cm != cmRepSent:
		return unix.EINVAL
	}
	s.established(i)
	return 0
}
