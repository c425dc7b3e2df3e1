from hermes_env import Env, serve


class Hello(Env):
    def rows(self, split):
        return [{"id": f"{split}-1", "prompt": "Say hello."}]

    def score(self, task, ep):
        return float(ep.answer == "hello")

    def oracle(self, task):
        return "hello"


serve(Hello())
