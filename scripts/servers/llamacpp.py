"""llama.cpp's own HTTP server, as xllamacpp binds it: llamacpp.py PORT MODEL CONTEXT SLOTS."""

import sys
import threading

import xllamacpp

p = xllamacpp.CommonParams()
p.port, p.model.path, p.n_ctx, p.n_parallel = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
p.model_alias = {"tiny"} if isinstance(p.model_alias, (set, frozenset)) else "tiny"
p.endpoint_metrics = p.endpoint_slots = p.use_jinja = True
p.warmup = p.ctx_shift = p.fit_params = False
p.n_gpu_layers, p.cpuparams.n_threads, p.cpuparams_batch.n_threads, p.n_threads_http = 0, 1, 1, 16
server = xllamacpp.Server(p)
print(server.listening_address, xllamacpp.BUILD_INFO, flush=True)
threading.Event().wait()
