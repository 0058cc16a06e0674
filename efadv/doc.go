// Package efadv is libefa's efadv API for objects of package ibv: SRD queue pairs, CQs that tell the
// sender's GID, and queries of Amazon's Elastic Fabric Adapters.
//
// SRD, scalable reliable datagrams, names the peer of each work request by an AH, a QPN and a Q_Key, as
// UD does, and delivers each message once. Messages may overtake each other. Work requests are posted by
// the functions behind ibv_wr_*.
//
//	qp, err := efadv.CreateQP(pd, cq, cq, nil)
//	local, err := qp.Endpoint(1, 0)                       // to the peer, and its Endpoint from there
//	err = qp.Connect(local, nil)                          // to RTS; an SRD QP has no peer
//	av, err := qp.Address(peer, nil)
//	ah, err := pd.CreateAH(av)
//	_, err = qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, SGEs: sges, AH: ah, RemoteQPN: peer.QPN,
//		RemoteQKey: peer.QKey}})
//
// All functions are safe for concurrent use, and errors are *ibv.OpError, as those of package ibv.
//
// Functions return ibv.ErrNotSupported for devices of other providers, and if the library is too old:
// rdma-core v26 has the first of them.
package efadv
