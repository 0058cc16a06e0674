package native

// groups are the rows by package and reason. Verbs are those of docs/native.md.
var groups = []group{
	{"ibv", needsOps, `TestRXE_NumbersOfTheTable TestRXE_TrueSizes TestRXE_RegistersOfTheirOwn TestRXE_Faults
		TestRXE_ServiceLevel TestRXE_ResizeSRQ TestRXE_MWOldLibrary TestRXE_TagMatchingRefused TestRXE_Signatures
		TestRXE_SameWords TestRXE_RawNobody`},
	{"ibv", needsC, `TestRXE_Adopt`},
	{"ibv", needsLibrary, `TestRXE_Unlisted TestRXE_MWUnknownProvider`},
	{"ibv", lacks("FieldWallClock", `the ops data path|completions with WallClock`), `TestRXE_WallClockUpdate
		TestRXE_Fields`},
	{"ibv", lacks("QPs of RawPacket", rawPacket), `TestRXE_FlowSpecs TestRXE_FlowOrder TestRXE_RawRandom TestRXE_Raw
		TestRXE_RawCQs TestRXE_RawTSO TestRXE_RawTSORing TestRXE_RawOffloads TestRXE_RawFields TestRXE_RawSendOps`},
	{"ibv", lacks("device memory", `device memory is not supported`), `TestRXE_Import TestRXE_DM`},
	{"ibv", lacks("ODP and advice", `advice on memory is not supported`), `TestRXE_OnDemand TestRXE_Refusals`},
	{"ibv", lacks("dma-bufs", `a dma-buf is not supported`), `TestRXE_Dmabuf`},
	{"ibv", lacks("moderation", `moderation of a CQ is not supported`), `TestRXE_Moderate TestRXE_ModerateWait`},
	{"ibv", lacks("null MRs", `a null MR is not supported`), `TestRXE_NullMR`},
	{"ibv", lacks("ibv_rereg_mr", `rereg: `+noVerb), `TestRXE_RegMR`},
	{"ibv", lacks("memory windows", memoryWindow), `TestRXE_MW TestRXE_MWUC TestRXE_MWOfAnotherQP
		TestRXE_MWSendInv TestRXE_MWBindFails TestRXE_MWChain TestRXE_MWHoldsMR TestRXE_MWRevoked TestRXE_MWRefused
		TestRXE_MWAllocs TestRXE_MWQueueFull TestRXE_MWZeroBased`},
	{"ibv", lacks("ECE", `ece .*`+noVerb), `TestRXE_SmallVerbs`},
	{"ibv", lacks("WQs", `a WQ is not supported`), `TestRXE_WQRandom TestRXE_RSS TestRXE_WQ TestRXE_WQScatterFCS
		TestRXE_WQAllocs TestRXE_WQBad`},
	{"ibv", lacks("XRC", `an XRC domain is not supported`), `TestRXE_XRCOpcodes TestRXE_XRCAndRC TestRXE_XRCErrors
		TestRXE_XRCShared TestRXE_XRCClose`},

	{"rdmacm", needsC, `TestRXE_CM_CloseInGroup/attached_by_the_program`},
	{"rdmacm", needsLibrary, `TestRXE_CM_Missing/drivers`},
	{"rdmacm", lacks("addrinfo and CreateEP", `(endpoint|address info) .*`+noVerb), `TestRXE_CM_XRC
		TestRXE_CM_XRCRefused TestRXE_CM_GetAddrInfo TestRXE_CM_NewerLibrary TestRXE_CM_Endpoints`},

	{"mlx5dv", needsOps, `TestRXEFaults TestRXEMkeyRoom TestRXEViewRefused TestRXEWQRaw TestRXEZZDeviceRemoved`},
	{"mlx5dv", lacks("mlx5dv", mlx5dv), `TestRXECompression TestRXEDC TestRXEDC_Failures TestRXEDC_Streams
		TestRXEDC_BadInput TestRXEDC_Allocs TestRXEDevX_Rings TestRXEDevX TestRXEDevX_Path TestRXEDevX_Async
		TestRXEMkeyConfigure TestRXEMemcpy TestRXEMemcpy_DCI TestRXEMasked_ScatterToCQE TestRXERawWQE
		TestRXEMkeyErrors TestRXECrypto TestRXENumbersThatCCuts TestRXEDM TestRXEDmabuf TestRXEMkeyBytes TestRXEMkey
		TestRXEMkeyAllocs TestRXE_PayloadInCQE TestRXE_MisplacedResults TestRXEScheduler TestRXESignature
		TestRXEQueryDevice TestRXEClock TestRXECreateCQ TestRXERaw TestRXERawAllocs TestRXEWQRefused`},
	{"mlx5dv", lacks("QPs of RawPacket", rawPacket), `TestRXEDirectRules TestRXERawBytes TestRXEFlowMatcher
		TestRXEFlowActions`},
}
