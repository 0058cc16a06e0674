// Package efadv is libefa's efadv API for objects of package ibv: SRD queue pairs, CQs that return the sender's GID,
// and queries of Amazon's Elastic Fabric Adapters.
//
// Experimental: no device has run this. See docs/stability.md.
//
// SRD, scalable reliable datagrams, names the peer of each work request by an AH, a QPN and a Q_Key, as UD does, and
// delivers each message once. Messages may overtake each other. Work requests are posted by the functions behind
// ibv_wr_*, with the methods of [ibv.QP].
//
//	qp, err := efadv.CreateQP(pd, cq, cq, nil)
//	local, err := qp.Endpoint(1, 0)                       // send it to the peer, and receive the peer's
//	err = qp.Connect(local, nil)                          // to RTS; an SRD QP has no peer
//	av, err := qp.Address(peer, nil)
//	ah, err := pd.CreateAH(av)
//	_, err = qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, SGEs: sges, AH: ah, RemoteQPN: peer.QPN,
//		RemoteQKey: peer.QKey}})
//
// # Names by task
//
//   - Creating: [CreateQP] with [QPOptions], [CreateCQ] with [CQOptions].
//   - What an adapter has: [QueryDevice], [DeviceAttr], [DeviceCaps]. [MaxSendDepth], [SendDepth] and [MaxRecvDepth]
//     are the limits of queues.
//   - Numbers of objects: [AHNumber]; [QueryMR], [MRAttr] and [Interconnect].
//   - Rings, for programs that poll or post without this module, such as from a GPU: [QueryCQ] and [CQMemory],
//     [QueryWQs] and [WQ].
//
// # Goroutines and errors
//
// All functions are safe for concurrent use. Errors are [*ibv.OpError]. Functions return [ibv.ErrNotSupported] for
// devices of other providers, and if the library is too old: rdma-core v26 has the first of them.
//
// # Environment
//
// Packages ibv and loader list the variables. This package adds none.
package efadv
