;; The language server of Sheaf in Emacs with eglot and mlir-mode.
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(mlir-mode . ("sheaf-lsp-server"))))
